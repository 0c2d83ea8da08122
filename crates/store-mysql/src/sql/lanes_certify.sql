-- Writes the row of a session, so that on a Galera cluster a burial on another node and this settle cannot both commit: a
-- node does not know the shared locks of another, and compares only what two transactions have written. One microsecond more
-- or less says nothing to anybody. ?1 route, ?2 session
update {lane_session} set leased_at = leased_at ^ 1 where route = ?1 and session = ?2
