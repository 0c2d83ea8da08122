-- The first of what waits, $2 entries of each part of the index of open entries that is in the order of staging: of a route, a
-- status and a priority where nothing has a due time, and of what has one. So a page costs as much whatever waits behind it.
-- Nothing is known of what follows in a part that was cut: so nothing counts that was staged later than the first cut.
{heads_meant}, {open_route}, part as materialized (
    with recursive hop as (
        select r.route, s.status, (
            select o.priority from {outbox} as o
            where o.route = r.route and o.due_at is null and o.status = s.status and o.status >= 'in_flight'
            order by o.due_at nulls first, o.priority limit 1
        ) as priority
        from open_route as r
        cross join unnest({wanted}) as s (status)
        union all
        select h.route, h.status, (
            select o.priority from {outbox} as o
            where o.route = h.route and o.due_at is null and o.status = h.status and o.status >= 'in_flight'
                and o.priority > h.priority
            order by o.due_at nulls first, o.priority limit 1
        )
        from hop as h where h.priority is not null
    )
    select route, status, priority from hop where priority is not null
), front as materialized (
    select o.*, p.priority as part
    from part as p
    cross join lateral (
        select {narrow}, {narrowed} as fits
        from {outbox} as o
        where o.route = p.route and o.due_at is null and o.status = p.status and o.status >= 'in_flight'
            and o.priority = p.priority and ($10::bigint is null or o.seq > $10)
        order by o.due_at nulls first, o.seq
        limit $2::bigint
    ) as o
    union all
    select o.*, null
    from open_route as r
    cross join unnest({wanted}) as s (status)
    cross join lateral (
        -- The index has all that is asked for, but in another order: without the offset the whole table would be read in this one.
        select t.seq
        from (
            select o.seq from {outbox} as o
            where o.route = r.route and o.due_at is not null and o.status = s.status and o.status >= 'in_flight'
                and ($10::bigint is null or o.seq > $10)
            offset 0
        ) as t
        order by t.seq
        limit $2::bigint
    ) as t
    cross join lateral (
        select {narrow}, {narrowed} as fits from {outbox} as o where o.seq = t.seq offset 0
    ) as o
), cut as materialized (
    select min(c.seq) as seq
    from (select max(f.seq) as seq from front as f group by f.route, f.status, f.part having count(*) = $2) as c
), meant as materialized (
    select f.* from front as f
    where f.fits and f.seq <= coalesce((select c.seq from cut as c), 9223372036854775807)
)