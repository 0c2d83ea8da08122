-- Claims in causal order.
-- Two arms, each the head of one partial index, so that nothing is sorted and the cost does not grow with the
-- backlog. Entries that are due by time take at most half ($4), so that retries never starve fresh ones.
-- A first attempt is always left: an entry that plain SQL allowed none is read, and dead with that reason. So is that of
-- what is pending and due at once, whatever plain SQL says of its attempts: the reaper does not look for it.
-- A limit that is a subselect hides its value: with old statistics the planner would else rather sort what it
-- takes for few rows. The rows come back by an array: a join would let it hash the whole table.
-- Each arm begins where one before may have ended ($8, and from $9), or at the very beginning: see floor.rs. Where this one
-- ended stands in one row of its answer; what has no stamp is left out, it lies above all that is still to come. The arm
-- of times, when it was not full, has seen all up to now.
-- Steps of sagas are only for relays that know sagas ($10).
-- set_config: a claim that a crash forgets is claimed again, so nobody waits for the disk.
-- Of a paused route nothing is taken.
with route_now as materialized (
    select exists (select from {route_state} where route = $1 and paused_at is not null) as paused
), due as materialized (
    select due_at, seq from {outbox}
    where not (select paused from route_now) and route = $1 and due_at is not null and due_at >= coalesce($8, '-infinity')
        and due_at <= coalesce($2, statement_timestamp()) and status > 'in_flight'
        and (attempts <= 0 or {counted} < coalesce(max_attempts, $3)) and ($10 or {plain})
    order by due_at nulls first, status, priority, seq
    limit (select $4::bigint)
    for update skip locked
), ready as materialized (
    select hlc, seq from {outbox}
    where not (select paused from route_now) and route = $1 and due_at is null and status > 'in_flight'
        and coalesce(hlc, 9223372036854775807) >= $9
        and (status = 'pending' or crashes = 0 and (attempts <= 0 or {counted} < coalesce(max_attempts, $3)))
        and ($10 or {plain})
    order by coalesce(hlc, 9223372036854775807), created_at, seq
    limit $5 - (select count(*) from due)
    for update skip locked
), taken as materialized (
    select seq from due union all select seq from ready
)
update {outbox} as o
set status = 'in_flight',
    attempts = o.attempts + 1,
    fence = greatest(o.fence + 1, (extract(epoch from coalesce($2, statement_timestamp())) * 1000000)::bigint),
    owner = $6,
    due_at = coalesce($2, statement_timestamp()) + $7 * interval '1 microsecond',
    leased_at = coalesce($2, statement_timestamp()),
    last_attempt_at = coalesce($2, statement_timestamp())
where o.seq = any (array(select seq from taken))
    and (select set_config('synchronous_commit', 'off', true)) is not null
    and (select {may_claim}($1))
returning {claimed},
    case o.seq when (select max(seq) from taken) then (
        select case when count(*) < $4 then coalesce($2, statement_timestamp()) else max(due_at) end from due
    ) end as due_end,
    case o.seq when (select max(seq) from taken) then (
        select max(array[hlc]) from ready where hlc is not null
    ) end as ready_end
