-- A batch of delivered, retry, park and release: one row a verdict. Each row is either deleted or updated.
-- The subqueries are those of settle_delivered.sql.
with verdicts as materialized (
    select v.seq, v.fence, v.verdict, v.after, v.error
    from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::text[]), (select $4::bigint[]),
            (select $5::text[]))
        as v(seq, fence, verdict, after, error)
), deleted as (
    delete from {outbox} as o
    using verdicts as v
    where o.seq = v.seq and o.fence = v.fence and o.status = (select 'in_flight'::{status}) and v.verdict = 'deleted'
    returning o.seq, o.fence
), updated as (
    update {outbox} as o
    set status = case v.verdict
            when 'delivered' then 'delivered'
            when 'retry' then 'retrying'
            when 'park' then 'pending'
            else case when o.attempts <= 1 then 'pending' else 'retrying' end
        end,
        -- Given back unharmed: the attempt does not count.
        attempts = case v.verdict
            when 'release' then greatest(o.attempts - 1, 0)
            when 'park' then 0
            else o.attempts
        end,
        crashes = case v.verdict when 'park' then 0 else o.crashes end,
        due_at = case when v.verdict in ('retry', 'park')
            then coalesce($6, statement_timestamp()) + v.after * interval '1 microsecond' end,
        owner = null,
        last_error = case when v.verdict = 'delivered' then null else coalesce(v.error, o.last_error) end,
        settled_at = case when v.verdict = 'delivered' then coalesce($6, statement_timestamp()) end
    from verdicts as v
    where o.seq = v.seq and o.fence = v.fence and o.status = (select 'in_flight'::{status}) and v.verdict <> 'deleted'
        and (select set_config('synchronous_commit', 'off', true)) is not null
    returning o.seq, o.fence, o.route, o.status, {lane_of_o} as lane
), revised as (
    -- Should the route be read by lanes: these entries were not theirs until now.
    update {lane} as l set revision = l.revision + 1
    where (l.route, l.lane) in (select u.route, u.lane from updated as u where u.status <> 'delivered')
), settled as (
    select seq, fence from deleted union all select seq, fence from updated
)
select count(*) as changed,
    case when count(*) < cardinality($1) then array_agg(seq) end as seqs,
    case when count(*) < cardinality($1) then array_agg(fence) end as fences
from settled
