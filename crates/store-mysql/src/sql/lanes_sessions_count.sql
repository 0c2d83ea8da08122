-- How many relays read a route by lanes. ?1 route or null
select count(*) from {lane_session} where ?1 is null or route = ?1
