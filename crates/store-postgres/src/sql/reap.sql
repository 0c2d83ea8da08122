-- Returns expired leases of one route and buries what has no attempts left, audited in the same step.
-- Two arms of one partial index (and with a hidden limit, as in a claim): what is due by time, and what is due at once but
-- stuck, which the index has at the beginning, before what nobody had yet. Steps of sagas are only for relays that know sagas ($7).
with expired as materialized (
    select seq, route, event_id, type, attempts, max_attempts, status, last_error
    from {outbox}
    where route = $1 and due_at is not null and due_at <= coalesce($2, statement_timestamp())
        and status >= 'in_flight'
        and (status = 'in_flight' or (attempts > 0 and attempts >= coalesce(max_attempts, $3))) and ($7 or {plain})
    order by due_at nulls first, status, priority, seq
    limit (select $4::bigint)
    for update skip locked
), stuck as materialized (
    select seq, route, event_id, type, attempts, max_attempts, status, last_error
    from {outbox}
    where route = $1 and due_at is null and status >= 'in_flight' and status < 'pending'
        and (status = 'in_flight' or (attempts > 0 and attempts >= coalesce(max_attempts, $3))) and ($7 or {plain})
    order by due_at nulls first, status, priority, seq
    limit $4 - (select count(*) from expired)
    for update skip locked
), stale as materialized (
    select seq, route, event_id, type, attempts,
        status = 'in_flight' as leased,
        coalesce(attempts > 0 and attempts >= coalesce(max_attempts, $3), false) as spent,
        -- Spent without a lease: what its last attempt said is the reason, not a lease.
        coalesce(case when status <> 'in_flight' then last_error end, $5) as error
    from (select * from expired union all select * from stuck) as found
), audited as (
    insert into {audit} (at, kind, actor, route, event_id, detail)
    select coalesce($2, statement_timestamp()), 'dead', $6, s.route, s.event_id, s.error
    from stale as s where s.spent
    returning 1
), moved as (
    update {outbox} as o
    set status = case when o.attempts > 0 and o.attempts >= coalesce(o.max_attempts, $3) then 'dead' else 'retrying' end,
        due_at = null,
        owner = null,
        last_error = coalesce(case when o.status <> 'in_flight' then o.last_error end, $5),
        settled_at = case when o.attempts > 0 and o.attempts >= coalesce(o.max_attempts, $3)
            then coalesce($2, statement_timestamp()) end
    -- Counting the audit records first makes them be written first.
    where (select count(*) from audited) >= 0 and o.seq = any (array(select seq from stale))
    returning o.seq, o.route, {lane_of} as lane
), revised as (
    -- Should the route be read by lanes: these entries were not theirs until now.
    update {lane} as l set revision = l.revision + 1
    where (l.route, l.lane) in (select m.route, m.lane from moved as m)
)
select s.event_id, s.type, s.attempts, s.leased, s.spent, s.error
from stale as s
where s.seq in (select seq from moved)
