-- Takes the row of a session whose lease has ended, to bury it. Nothing, if it was renewed or buried since.
-- ?1 now, ?2 route, ?3 session
select handed from {lane_session}
where route = ?2 and session = ?3 and (lease_until <= ?1 or leased_at - ?1 > lease_until - leased_at)
for update
