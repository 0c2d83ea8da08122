-- The first dead entry of each key that is blocked by it, by the index of dead entries with a key.
heads (route, lane, key, seq) as materialized (
  select dead.route, dead.lane, dead.key, min(dead.seq)
  from {route_state} as state
  cross join {outbox} as dead on dead.status = 'dead' and dead.key is not null and dead.route = state.route
  where state.on_dead = 'block'
  group by dead.route, dead.lane, dead.key)