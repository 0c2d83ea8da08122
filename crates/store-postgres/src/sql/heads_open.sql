-- The same of routes that have something open.
heads as materialized (
    select o.route, {lane_of_o} as lane, o.key, min(o.seq) as seq
    from {outbox} as o
    where o.status = 'dead' and o.key is not null and ($5::text is null or o.key = $5)
        and o.route in (
            select s.route from {route_state} as s join open_route as r on r.route = s.route where s.on_dead = 'block'
        )
    group by 1, 2, 3
)