-- The same of the keys that are meant only: there are few, and so is what is kept of the dead.
heads as materialized (
    select o.route, {lane_of_o} as lane, o.key, min(o.seq) as seq
    from {outbox} as o
    where o.status = 'dead'
        and o.route in (select r.route from {route_state} as r where r.on_dead = 'block')
        and (o.route, o.key) in (select m.route, m.key from meant as m where m.status > 'in_flight' and m.key is not null)
    group by 1, 2, 3
)