-- The common batch of lanes without retention: everything was delivered and goes at once. Rows ($3) were handed out by
-- lanes ($4) under fences ($5), which are checked once, not for each row; if a lane is not held so any more, nothing
-- happens here. The rows are looked for where they were read ($6), which costs half of looking them up. One that is not
-- there any more is left to `lanes_settle_mixed.sql`, and what is there instead is none of ours: hence the look for its
-- number, which the planner does not turn into a join. The subselects hide what the values are: planning for them costs more than the rows.
with me as materialized (
    select session from {lane_session} where route = $1 and session = $2 for key share
), mine as materialized (
    select count(*) = cardinality($4) as whole
    from {lane}
    where route = $1 and lane = any ($4::smallint[]) and session = (select session from me)
        and fence = ($5::bigint[])[width_bucket(lane, $4::smallint[])]
), settled as (
    delete from {outbox}
    where ctid = any ((select $6::text)::tid[]) and ($3::bigint[])[width_bucket(seq, $3::bigint[])] = seq
        and route = $1 and status = any ((select array['pending', 'retrying']::{status}[])::{status}[])
        and (select mine.whole from mine)
        and (select set_config('synchronous_commit', 'off', true)) is not null
        and (select pg_try_advisory_xact_lock_shared(7458911, '{outbox}'::regclass::oid::integer)) is not null
    returning seq
)
select (select mine.whole from mine) as mine, count(*) as changed,
    case when count(*) < cardinality($3) then array_agg(seq) end as seqs
from settled
