-- Deletes sagas that ended long enough ago, oldest first. Audited with its count before anything goes; their own records
-- stay. $1 now or null, $2 age in microseconds, $3 limit, $4 actor
with picked as materialized (
    select id from {saga}
    where ended_at <= coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
    order by ended_at
    limit (select $3::bigint)
    for update skip locked
), audited as (
    insert into {audit} (at, kind, actor, detail)
    select coalesce($1, statement_timestamp()), 'sagas_purged', $4, count(*)::text from picked having count(*) > 0
    returning 1
), purged as (
    delete from {saga} as s
    where (select count(*) from audited) > 0 and s.id = any (array(select id from picked))
    returning 1
)
select count(*) as purged from purged
