-- The row that stands for a route; made once. ?1 route
insert into {route_state} (route) values (?1) on duplicate key update route = values(route)
