-- Returns expired leases of one route and buries what has no attempts left, audited in the same step.
-- Arms of one partial index (and with a hidden limit, as in a claim): what is due by time; what is due at once but stuck,
-- which the index has at the beginning, before what nobody had yet; and if asked ($7), by going through all that is not
-- due yet, what was leased before the clock was set back. The last row says whether suspects wait. Steps of sagas are only
-- for relays that know sagas ($8).
with expired as materialized (
    select seq, route, event_id, type, attempts, crashes, max_attempts, status, last_error
    from {outbox}
    where route = $1 and due_at is not null and due_at <= coalesce($2, statement_timestamp())
        and status >= 'in_flight'
        and (status = 'in_flight' or (attempts > 0 and {counted} >= coalesce(max_attempts, $3))) and ($8 or {plain})
    order by due_at nulls first, status, priority, seq
    limit (select $4::bigint)
    for update skip locked
), impossible as materialized (
    select seq, route, event_id, type, attempts, crashes, max_attempts, status, last_error
    from {outbox}
    where $7 and route = $1 and due_at is not null and due_at > coalesce($2, statement_timestamp())
        and status = 'in_flight' and leased_at - coalesce($2, statement_timestamp()) > due_at - leased_at
        and ($8 or {plain})
    order by due_at nulls first, status, priority, seq
    limit $4 - (select count(*) from expired)
    for update skip locked
), stuck as materialized (
    select seq, route, event_id, type, attempts, crashes, max_attempts, status, last_error
    from {outbox}
    where route = $1 and due_at is null and status >= 'in_flight' and status < 'pending'
        and (status = 'in_flight' or (attempts > 0 and {counted} >= coalesce(max_attempts, $3))) and ($8 or {plain})
    order by due_at nulls first, status, priority, seq
    limit $4 - (select count(*) from expired) - (select count(*) from impossible)
    for update skip locked
), stale as materialized (
    select seq, route, event_id, type, attempts,
        status = 'in_flight' as leased,
        -- With the lease that is over now, if it had one.
        coalesce(attempts > 0 and attempts - least(crashes + (status = 'in_flight')::integer, {in_company})
            >= coalesce(max_attempts, $3), false) as spent,
        -- Spent without a lease: what its last attempt said is the reason, not a lease.
        coalesce(case when status <> 'in_flight' then last_error end, $5) as error
    from (select * from expired union all select * from impossible union all select * from stuck) as found
), audited as (
    insert into {audit} (at, kind, actor, route, event_id, detail)
    select coalesce($2, statement_timestamp()), 'dead', $6, s.route, s.event_id, s.error
    from stale as s where s.spent
    returning 1
), moved as (
    update {outbox} as o
    set status = case when s.spent then 'dead' else 'retrying' end,
        crashes = o.crashes + s.leased::integer,
        due_at = null,
        owner = null,
        last_error = s.error,
        settled_at = case when s.spent then coalesce($2, statement_timestamp()) end
    from stale as s
    -- Counting the audit records first makes them be written first.
    where (select count(*) from audited) >= 0 and o.seq = any (array(select seq from stale)) and o.seq = s.seq
    returning o.seq, o.route, {lane_of_o} as lane
), revised as (
    -- Should the route be read by lanes: these entries were not theirs until now.
    update {lane} as l set revision = l.revision + 1
    where (l.route, l.lane) in (select m.route, m.lane from moved as m)
)
select s.event_id, s.type, s.attempts, s.leased, s.spent, s.error, null::boolean as suspects
from stale as s
where s.seq in (select seq from moved)
union all
-- The order tells the planner which index it is, where all of them are as good as empty.
select null, null, null, null, null, null, exists (select from moved) or coalesce((
    select true from {outbox} where route = $1 and due_at is null and status = 'retrying' and ($8 or {plain})
    order by due_at nulls first, status, priority, seq
    limit 1
), false)
