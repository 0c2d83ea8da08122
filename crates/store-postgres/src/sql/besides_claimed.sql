
    union all
    -- What was claimed as a row is in no lane: by the index of open entries.
    select c.*
    from open_route as r
    cross join lateral (
        -- Each arm in the order of that index, so that no other is taken.
        (
            select {narrow}, o.status = any ({wanted}) and {narrowed} as fits from {outbox} as o
            where o.route = r.route and o.due_at is null and o.status = 'in_flight'
            order by o.due_at nulls first, o.priority, o.seq
        )
        union all
        (
            select {narrow}, o.status = any ({wanted}) and {narrowed} from {outbox} as o
            where o.route = r.route and o.due_at is not null and o.status = 'in_flight'
            order by o.due_at nulls first, o.priority, o.seq
        )
    ) as c
    where c.fits