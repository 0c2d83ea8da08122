-- Entries per route and status, each arm by its own partial index. `since`: what has waited longest is due
-- since then; for entries that are due at once that is the staging time of the first of them. $1 now or null, $2 how
-- many of the delivered and of the discarded are counted, the newest first
select c.route, c.status::text, c.entries,
    least(c.due, (select o.created_at from {outbox} as o where o.seq = c.first)) as since,
    coalesce($1, statement_timestamp()) as now
from (
    select route, status, count(*) as entries, min(seq) filter (where due_at is null) as first,
        min(due_at) filter (where due_at <= coalesce($1, statement_timestamp())) as due
    from {outbox}
    where status >= 'in_flight'
    group by route, status
    union all
    select route, status, count(*), null, null
    from {outbox}
    where status < 'in_flight' and status = 'dead'
    group by route, status
    union all
    select route, status, count(*), null, null
    from (
        select route, status from {outbox}
        where status < 'in_flight' and status = 'delivered'
        order by status desc, settled_at desc
        limit $2
    ) as delivered
    group by route, status
    union all
    select route, status, count(*), null, null
    from (
        select route, status from {outbox}
        where status < 'in_flight' and status = 'discarded'
        order by status desc, settled_at desc
        limit $2
    ) as discarded
    group by route, status
) as c
