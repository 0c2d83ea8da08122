-- The common batch of lanes: everything was delivered, with the same number of attempts ($7), and is kept. The attempt is
-- spent here. Else as `lanes_settle_deleted.sql`.
with me as materialized (
    select session from {lane_session} where route = $1 and session = $2 for key share
), mine as materialized (
    select count(*) = cardinality($4) as whole
    from {lane}
    where route = $1 and lane = any ($4::smallint[]) and session = (select session from me)
        and fence = ($5::bigint[])[width_bucket(lane, $4::smallint[])]
), settled as (
    update {outbox}
    set status = 'delivered', attempts = greatest(attempts, $7), due_at = null, owner = null, last_error = null,
        last_attempt_at = coalesce($8, statement_timestamp()), settled_at = coalesce($8, statement_timestamp())
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
