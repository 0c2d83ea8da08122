-- Deletes what was accepted long enough ago, oldest first, and forgets lanes of which nothing new was seen for as long;
-- the next message of such a lane brings it back. Audited with its count before anything goes.
-- $1 now or null, $2 age in microseconds, $3 limit, $4 actor
with picked as materialized (
    select consumer, event_id from {inbox}
    where accepted_at <= coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
    order by accepted_at
    limit (select $3::bigint)
    for update skip locked
), audited as (
    insert into {audit} (at, kind, actor, detail)
    select coalesce($1, statement_timestamp()), 'inbox_purged', $4, count(*)::text from picked having count(*) > 0
    returning 1
), purged as (
    delete from {inbox} as i using picked as p
    where (select count(*) from audited) > 0 and i.consumer = p.consumer and i.event_id = p.event_id
    returning 1
), forgotten as (
    delete from {inbox_fence} as f using (
        select consumer, lane from {inbox_fence}
        where seen_at <= coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
        for update skip locked
    ) as old
    where (select count(*) from audited) > 0 and f.consumer = old.consumer and f.lane = old.lane
)
select count(*) as purged from purged
