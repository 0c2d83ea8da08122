-- Prolongs leases that are still held. The arrays are null when all were, which is nearly always.
-- The subqueries are those of settle_delivered.sql.
with extended as (
    update {outbox} as o
    set due_at = coalesce($3, statement_timestamp()) + $4 * interval '1 microsecond',
        leased_at = coalesce($3, statement_timestamp())
    from unnest((select $1::bigint[]), (select $2::bigint[])) as h(seq, fence)
    where o.seq = h.seq and o.fence = h.fence and o.status = (select 'in_flight'::{status})
        and (select set_config('synchronous_commit', 'off', true)) is not null
        and (select pg_try_advisory_xact_lock_shared(7458911, '{outbox}'::regclass::oid::integer)) is not null
    returning o.seq, o.fence
)
select count(*) as changed,
    case when count(*) < cardinality($1) then array_agg(seq) end as seqs,
    case when count(*) < cardinality($1) then array_agg(fence) end as fences
from extended
