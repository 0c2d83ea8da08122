-- The routes that have something due by time or stuck, by hopping from one to the next in the index: the
-- cost grows with the routes, not with the entries.
with recursive timed as (
    (select route::text from {outbox} where due_at is not null or status < 'pending' order by route limit 1)
    union all
    select (
        select o.route::text from {outbox} as o
        where (o.due_at is not null or o.status < 'pending') and o.route > t.route
        order by o.route limit 1
    )
    from timed as t where t.route is not null
)
select route from timed where route is not null
