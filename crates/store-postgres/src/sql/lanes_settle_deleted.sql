-- The common batch of lanes without retention: everything was delivered and goes at once. The row is checked against the
-- fence of its lane, which is a place in an array: a join would try all lanes for each row. The subselect hides the
-- statuses: else the planner may read the index of all lanes, not the rows.
with me as materialized (
    select session from {lane_session} where route = $1 and session = $2 for key share
), held as materialized (
    select array_agg(case when session = (select session from me) then fence end order by lane) as fences
    from {lane}
    where route = $1
), settled as (
    delete from {outbox} as o
    using unnest($3::bigint[], $4::bigint[]) as h(seq, fence)
    where o.seq = h.seq and o.route = $1 and o.status = any ((select array['pending', 'retrying'])::text[])
        and (select fences from held)[{lane_of} + 1] = h.fence
        and (select set_config('synchronous_commit', 'off', true)) is not null
    returning h.seq, h.fence
)
select count(*) as changed,
    case when count(*) < cardinality($3) then array_agg(seq) end as seqs,
    case when count(*) < cardinality($3) then array_agg(fence) end as fences
from settled
