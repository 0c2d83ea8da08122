-- Unsettled entries of held lanes by their seq, with the fence of their lane, which is a place in an array: a join would
-- try all lanes for each row. A first row says whether the session is there. The subselect hides the statuses and `|| ''`
-- the route: else the planner may read all of an index that has one of these in it, not the rows.
with me as materialized (
    select session from {lane_session} where route = $1 and session = $2
), held as materialized (
    select array_agg(case when session = (select session from me) then fence end order by lane) as fences
    from {lane}
    where route = $1
), found as materialized (
    select {read}, {lane_of}::smallint as lane, (select fences from held)[{lane_of} + 1] as lane_fence
    from {outbox}
    where seq = any ($3) and route || '' = $1 and status = any ((select array['pending', 'retrying']::{status}[])::{status}[])
        and {plain}
)
select null, {unread}, null::bigint as lane_fence, exists (select from me) as here,
    (extract(epoch from statement_timestamp()) * 1000000)::bigint as now
union all
select found.*, null, null from found where found.lane_fence is not null
