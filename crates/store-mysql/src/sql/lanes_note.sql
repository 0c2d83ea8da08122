-- How far a session has read; changes no row of one that was taken for dead. ?1 route, ?2 session, ?3 seq
update {lane_session} set handed = greatest(handed, ?3) where route = ?1 and session = ?2
