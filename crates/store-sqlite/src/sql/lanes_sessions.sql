-- Who shares a route, in the order of joining, and how many can, as each says. ?1 route
select session, shares from {lane_session} where route = ?1 order by rank
