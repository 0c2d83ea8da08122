-- Has the row of a route alone until the transaction ends: no other session joins or shares lanes, and no relay claims
-- by rows. ?1 route
select 1 from {route_state} where route = ?1 for update
