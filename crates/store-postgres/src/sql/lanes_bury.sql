-- Ends sessions ($2) and counts one attempt for what they may have had in flight: read, or if they said so only that; not settled, due, and not behind
-- an entry of its key that waits for its time, or is dead where the dead are not skipped ($7). Suspects are in flight only if the session said so: they
-- wait otherwise. Who has no attempts left is dead, audited before that.
-- Of the order of what was read see `lanes_read.sql`.
with lost as materialized (
    select l.lane, (
        select h.handed from {lane_handed} as h
        where h.route = l.route and h.session = l.session
        order by h.handed desc limit 1
    ) as handed, s.isolated
    from {lane} as l
    join {lane_session} as s on s.route = l.route and s.session = l.session
    where l.route = $1 and l.session = any ($2)
), seen as materialized (
    select e.seq, e.key, e.waits, lost.isolated is not null and e.seq <> all (lost.isolated) as spared
    from lost
    cross join lateral (
        select seq, key, case
            when due_at is null then lost.isolated is null and status = 'retrying' and crashes > 0
            else due_at > coalesce($3, statement_timestamp())
        end as waits
        from {outbox}
        where route = $1 and {lane_of} = lost.lane and status > 'in_flight' and seq <= lost.handed
            and {plain}
        order by seq
        offset 0
    ) as e
    union all
    select d.seq, d.key, true, false
    from (
        select seq, key, {lane_of} as lane from {outbox} where status = 'dead' and route = $1 and key is not null and not $7
    ) as d
    join lost on lost.lane = d.lane and d.seq <= lost.handed
), placed as (
    select seq, waits, spared, key is not null and bool_or(waits) over (partition by key order by seq) as held_back from seen
), counted as materialized (
    select o.seq, o.route, o.event_id, o.type, o.attempts + 1 as attempts,
        o.attempts + 1 - least(o.crashes + 1, {in_company}) >= coalesce(o.max_attempts, $4) as spent
    from {outbox} as o
    where o.seq = any (array(select seq from placed where not waits and not held_back and not spared))
), audited as (
    insert into {audit} (at, kind, actor, route, event_id, detail)
    select coalesce($3, statement_timestamp()), 'dead', $6, c.route, c.event_id, $5
    from counted as c where c.spent
    returning 1
), moved as (
    update {outbox} as o
    set status = case when c.spent then 'dead' else 'retrying' end,
        attempts = c.attempts,
        crashes = o.crashes + 1,
        due_at = null,
        owner = null,
        last_error = $5,
        last_attempt_at = coalesce($3, statement_timestamp()),
        settled_at = case when c.spent then coalesce($3, statement_timestamp()) end
    from counted as c
    -- Counting the audit records first makes them be written first.
    where (select count(*) from audited) >= 0 and o.seq = any (array(select seq from counted)) and o.seq = c.seq
    returning 1
), ended as (
    delete from {lane_session} where route = $1 and session = any ($2)
), forgotten as (
    delete from {lane_handed} where route = $1 and session = any ($2)
)
select c.event_id, c.type, c.attempts from counted as c where c.spent and (select count(*) from moved) > 0
