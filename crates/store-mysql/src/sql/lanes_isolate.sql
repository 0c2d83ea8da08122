-- What a session has in flight at most; changes no row of one that was taken for dead.
-- ?1 route, ?2 session, ?3 [seq, …] or null
update {lane_session} set isolated = ?3 where route = ?1 and session = ?2
