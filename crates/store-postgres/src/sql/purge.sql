-- Deletes what was settled long enough ago, oldest first, never the dead. One arm a status, because the index
-- is in the order of settling only within one status. Audited with its count before anything goes.
with delivered as materialized (
    select seq from {outbox}
    where status = 'delivered' and settled_at <= coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
    order by settled_at
    limit (select $3::bigint)
    for update skip locked
), discarded as materialized (
    select seq from {outbox}
    where status = 'discarded' and settled_at <= coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
    order by settled_at
    limit $3 - (select count(*) from delivered)
    for update skip locked
), picked as materialized (
    select seq from delivered union all select seq from discarded
), audited as (
    insert into {audit} (at, kind, actor, detail)
    select coalesce($1, statement_timestamp()), 'purged', $4, count(*)::text from picked having count(*) > 0
    returning 1
), purged as (
    delete from {outbox} as o
    where (select count(*) from audited) > 0 and o.seq = any (array(select seq from picked))
    returning 1
)
select count(*) as purged from purged
