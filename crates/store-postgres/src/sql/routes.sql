-- The routes that have something due by time or stuck, by hopping from one to the next in the index: the
-- cost grows with the routes, not with the entries.
with recursive timed as (
    (select route::text from {outbox} where due_at is not null order by route limit 1)
    union all
    select (select o.route::text from {outbox} as o where o.due_at is not null and o.route > t.route order by o.route limit 1)
    from timed as t where t.route is not null
), stuck as (
    (select route::text from {outbox}
    where due_at is null and status in ('pending', 'retrying', 'in_flight') and (attempts > 0 or status = 'in_flight')
    order by route limit 1)
    union all
    select (select o.route::text from {outbox} as o
        where o.due_at is null and o.status in ('pending', 'retrying', 'in_flight')
            and (o.attempts > 0 or o.status = 'in_flight') and o.route > s.route
        order by o.route limit 1)
    from stuck as s where s.route is not null
)
select route from timed where route is not null union select route from stuck where route is not null order by route
