-- Whether a route is paused; nobody else changes that until the transaction ends. ?1 route
select paused_at is not null from {route_state} where route = ?1 for update
