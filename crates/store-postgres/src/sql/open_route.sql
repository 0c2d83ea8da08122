-- The routes that have something open, as in `routes.sql`, or the one that is asked for.
open_route as materialized (
    with recursive open as (
        select coalesce($3::text, (
            select o.route::text from {outbox} as o where o.status >= 'in_flight' order by o.route limit 1
        )) as route
        union all
        select (
            select o.route::text from {outbox} as o
            where o.status >= 'in_flight' and o.route > t.route
            order by o.route limit 1
        )
        from open as t where t.route is not null and $3 is null
    )
    select route from open where route is not null
)