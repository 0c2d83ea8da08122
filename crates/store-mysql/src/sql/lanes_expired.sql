-- Sessions whose lease has ended, or begins later than it is long because the clock was set back. Whoever asks is alive.
-- ?1 now or null, ?2 route or null, ?3 session or null
select session, route from {lane_session}
where (?2 is null or route = ?2) and not session <=> ?3
  and (lease_until <= coalesce(?1, {now}) or leased_at - coalesce(?1, {now}) > lease_until - leased_at)
order by `rank`
