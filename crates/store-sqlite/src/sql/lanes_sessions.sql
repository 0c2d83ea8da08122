-- Who shares a route, in the order of joining. ?1 route
select session from {lane_session} where route = ?1 order by rank
