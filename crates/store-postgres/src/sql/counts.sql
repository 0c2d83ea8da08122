-- Entries per route and status, each arm by its own partial index. `since`: what has waited longest is due
-- since then; for entries that are due at once that is the staging time of the first of them.
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
    where status < 'in_flight'
    group by route, status
) as c
