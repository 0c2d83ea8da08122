-- The dead entry that holds `entry` back: the first of its key, by the index of dead entries with a key.
(select min(dead.seq) from {outbox} as dead
  where dead.status = 'dead' and dead.key is not null and dead.route = entry.route and dead.lane = entry.lane
    and dead.key = entry.key and dead.seq < entry.seq and (entry.status = 'pending' or entry.status = 'retrying')
    and dead.route in (select route from {route_state} where on_dead = 'block'))
