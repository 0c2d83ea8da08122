-- The first dead entry of each key that is blocked by it, by the index of what is at its end.
heads as materialized (
    select o.route, {lane_of_o} as lane, o.key, min(o.seq) as seq
    from {outbox} as o
    where o.status = 'dead' and o.key is not null
        and o.route in (select r.route from {route_state} as r where r.on_dead = 'block')
    group by 1, 2, 3
)