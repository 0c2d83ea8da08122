-- Whether a route is paused. Relays by rows share the row until they have claimed; a relay that begins to read the route
-- by lanes has it alone. ?1 route
select paused_at is not null from {route_state} where route = ?1 lock in share mode
