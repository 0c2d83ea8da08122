-- The routes that have something open, by hopping from one to the next in the index: the cost grows with the routes, not
-- with the entries.
with recursive open as (
    (select route::text from {outbox} where status >= 'in_flight' order by route limit 1)
    union all
    select (
        select o.route::text from {outbox} as o
        where o.status >= 'in_flight' and o.route > t.route
        order by o.route limit 1
    )
    from open as t where t.route is not null
)
select route from open where route is not null
