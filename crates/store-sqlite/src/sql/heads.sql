-- The first dead entry of each key that is blocked by it, by the index of what is at its end.
heads (route, lane, key, seq) as materialized (
  select dead.route, dead.lane, dead.key, min(dead.seq)
  from {outbox} as dead
  where dead.status = 'dead' and {ended} and dead.key is not null
    and dead.route in (select route from {route_state} where on_dead = 'block')
  group by dead.route, dead.lane, dead.key)