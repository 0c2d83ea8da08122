-- Sessions whose lease has ended. Whoever asks is alive. ?1 now or null, ?2 route, ?3 session
select session from {lane_session}
where route = ?2 and session != ?3 and lease_until <= coalesce(?1, {now})
order by rank
