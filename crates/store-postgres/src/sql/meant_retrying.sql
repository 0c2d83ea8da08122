-- All that retry, by the index of open entries, which says so: what is due at once, and what has a due time.
{heads}, {open_route}, meant as (
    select o.*
    from open_route as r
    cross join lateral (
        -- Each arm in the order of that index, so that no other is taken.
        (
            select {narrow} from {outbox} as o
            where o.route = r.route and o.due_at is null and o.status = 'retrying' and {narrowed}
            order by o.due_at nulls first, o.priority, o.seq
        )
        union all
        (
            select {narrow} from {outbox} as o
            where o.route = r.route and o.due_at is not null and o.status = 'retrying' and {narrowed}
            order by o.due_at nulls first, o.priority, o.seq
        )
    ) as o
)