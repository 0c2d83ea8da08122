-- The common batch of lanes: everything was delivered and is kept. The attempt is spent here. Else as
-- `lanes_settle_deleted.sql`.
with me as materialized (
    select session from {lane_session} where route = $1 and session = $2 for key share
), held as materialized (
    select array_agg(case when session = (select session from me) then fence end order by lane) as fences
    from {lane}
    where route = $1
), settled as (
    update {outbox} as o
    set status = 'delivered', attempts = greatest(o.attempts, h.attempts), due_at = null, owner = null,
        last_error = null, last_attempt_at = coalesce($6, statement_timestamp()),
        settled_at = coalesce($6, statement_timestamp())
    from unnest($3::bigint[], $4::bigint[], $5::integer[]) as h(seq, fence, attempts)
    where o.seq = h.seq and o.route = $1 and o.status = any ((select array['pending', 'retrying'])::text[])
        and (select fences from held)[{lane_of} + 1] = h.fence
        and (select set_config('synchronous_commit', 'off', true)) is not null
    returning h.seq, h.fence
)
select count(*) as changed,
    case when count(*) < cardinality($3) then array_agg(seq) end as seqs,
    case when count(*) < cardinality($3) then array_agg(fence) end as fences
from settled
