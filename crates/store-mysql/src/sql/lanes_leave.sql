-- ?1 route, ?2 session
delete from {lane_session} where route = ?1 and session = ?2
