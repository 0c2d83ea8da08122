-- A sign of life; changes no row of a session that was taken for dead.
-- ?1 now, ?2 route, ?3 session, ?4 owner, ?5 lease in microseconds, ?6 shares
update {lane_session} set owner = ?4, leased_at = ?1, lease_until = ?1 + ?5, shares = ?6 where route = ?2 and session = ?3
