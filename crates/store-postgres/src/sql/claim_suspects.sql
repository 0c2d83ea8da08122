-- Claims suspects, which came back from an expired lease and are the only ones that wait for somebody without a time: the
-- least accused among the first ($4), and as many as may be together ($9, by the number of crashes) beside those that the
-- relay has in flight already ($8). The company is told in any case: with none taken, they wait for a smaller one.
-- The limits are those of claim_staged.sql, and so are the last conditions of the update. Steps of sagas are only for relays
-- that know sagas ($10).
with route_now as materialized (
    select exists (select from {route_state} where route = $1 and paused_at is not null) as paused
), head as materialized (
    select seq, crashes from {outbox}
    where not (select paused from route_now) and route = $1 and due_at is null and status = 'retrying' and crashes > 0
        and {counted} < coalesce(max_attempts, $3) and ($10 or {plain})
    order by due_at nulls first, status, priority, seq
    limit (select $4::bigint)
    for update skip locked
), accused as materialized (
    select min(crashes) as crashes, ($9::bigint[])[least(min(crashes), cardinality($9::bigint[]))] as company
    from head
    having count(*) > 0
), taken as materialized (
    select h.seq from head as h
    where h.crashes = (select a.crashes from accused as a)
    limit greatest(least($5, (select a.company from accused as a) - $8), 0)
), claimed as (
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
    returning {claimed}
)
select c.*, a.company from accused as a left join claimed as c on true
