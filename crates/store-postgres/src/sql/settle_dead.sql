-- The dead of a batch, with their audit records. The rows are locked first, so that exactly what is audited
-- dies. Waits for the disk, unlike the other verdicts: nobody would try these again.
-- The subqueries are those of settle_delivered.sql.
with verdicts as materialized (
    select v.seq, v.fence, v.error
    from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::text[])) as v(seq, fence, error)
), doomed as materialized (
    select o.seq, o.route, o.event_id, v.error
    from verdicts as v
    join {outbox} as o on o.seq = v.seq and o.fence = v.fence and o.status = (select 'in_flight'::{status})
    for update of o
), audited as (
    insert into {audit} (at, kind, actor, route, event_id, detail)
    select coalesce($4, statement_timestamp()), 'dead', $5, d.route, d.event_id, d.error
    from doomed as d
    returning 1
), settled as (
    update {outbox} as o
    set status = 'dead', due_at = null, owner = null, last_error = d.error,
        settled_at = coalesce($4, statement_timestamp())
    from doomed as d
    where o.seq = d.seq and (select count(*) from audited) > 0
    returning o.seq, o.fence
)
select count(*) as changed,
    case when count(*) < cardinality($1) then array_agg(seq) end as seqs,
    case when count(*) < cardinality($1) then array_agg(fence) end as fences
from settled
