-- The common batch: everything was delivered and is kept.
-- The arrays come out of a subquery so that their length is no news to the planner: told that there are many, and by its
-- statistics that nothing is in flight, it would compare each entry in flight with each of them.
-- So does the status: else it may read the index of what is in flight, not the rows.
with settled as (
    update {outbox} as o
    set status = 'delivered', due_at = null, owner = null, last_error = null,
        settled_at = coalesce($3, statement_timestamp())
    from unnest((select $1::bigint[]), (select $2::bigint[])) as h(seq, fence)
    where o.seq = h.seq and o.fence = h.fence and o.status = (select 'in_flight'::{status})
        and (select set_config('synchronous_commit', 'off', true)) is not null
        and (select pg_try_advisory_xact_lock_shared(7458911, '{outbox}'::regclass::oid::integer)) is not null
    returning o.seq, o.fence
)
select count(*) as changed,
    case when count(*) < cardinality($1) then array_agg(seq) end as seqs,
    case when count(*) < cardinality($1) then array_agg(fence) end as fences
from settled
