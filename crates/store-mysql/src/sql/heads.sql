-- The first dead entry of each key that is blocked by it, by the index of what is at its end.
heads as (
  select dead.route, dead.lane, dead.`key`, min(dead.seq) as seq
  from {outbox} as dead force index ({open_index})
  where dead.part = 5 and dead.`key` is not null
    and dead.route in (select route from {route_state} where on_dead = 'block')
  group by dead.route, dead.lane, dead.`key`)