-- Carries decisions on sagas out, each of them whole or not at all.
-- Sagas are locked in the order of their ids, and after them their entries in the order of staging. A saga that has
-- moved since it was read, or one of whose entries is not as it was, is left as it is and not returned. The audit
-- records are counted, and so written, before anything that they explain.
-- Each row is looked up by itself, in an order that is made before: asked for the rows in that order, the database reads
-- a whole table in the order of its key, because it takes every list here for ten rows. The series of one row that it
-- takes for more lets it join the lists by hashing; else it compares all of each with all of the others.
with wanted as materialized (
    select w.id, w.version, w.status, w.dead, w.due_at, w.body, w.ended, w.entries
    from unnest($4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::timestamptz[], $9::text[], $10::boolean[],
        $11::bigint[]) as w(id, version, status, dead, due_at, body, ended, entries)
    cross join generate_series(1, 1 + 0 * cardinality($4::text[])) as g where g = 1
), locked as materialized (
    select s.id, s.route, s.subject_kind, s.subject_value
    from (select w.id, w.version from wanted as w order by w.id) as w
    cross join lateral (
        select s.id, s.route, s.subject_kind, s.subject_value
        from {saga} as s
        where s.id = w.id and s.version = w.version
        for update
    ) as s
), meant as materialized (
    select e.saga_id, e.seq, e.fence, e.seen, e.change, e.error
    from unnest($12::text[], $13::bigint[], $14::bigint[], $15::text[], $16::text[], $17::text[])
        as e(saga_id, seq, fence, seen, change, error)
    cross join generate_series(1, 1 + 0 * cardinality($4::text[])) as g where g = 1
), found as materialized (
    select o.seq, e.saga_id, e.change, e.error
    from (
        select e.saga_id, e.seq, e.fence, e.seen, e.change, e.error
        from meant as e
        join locked as l on l.id = e.saga_id
        order by e.seq
    ) as e
    cross join lateral (
        select o.seq from {outbox} as o where o.seq = e.seq and o.fence = e.fence and o.status = e.seen for update
    ) as o
), counted as materialized (
    select f.saga_id, count(*) as entries from found as f group by f.saga_id
), ready as materialized (
    select l.id, l.route, l.subject_kind, l.subject_value, w.status, w.dead, w.due_at, w.body, w.ended
    from locked as l
    join wanted as w on w.id = l.id
    left join counted as c on c.saga_id = l.id
    where w.entries = coalesce(c.entries, 0)
), audited as (
    insert into {audit} (at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail)
    select $1, a.kind, $2, r.route, a.event_id, r.id, r.subject_kind, r.subject_value, a.step, a.detail
    from unnest($18::text[], $19::text[], $20::uuid[], $21::text[], $22::text[])
        with ordinality as a(saga_id, kind, event_id, step, detail, place)
    cross join generate_series(1, 1 + 0 * cardinality($4::text[])) as g
    join ready as r on r.id = a.saga_id
    where g = 1
    order by a.place
    returning 1
), deleted as (
    delete from {outbox} as o
    using found as f
    join ready as r on r.id = f.saga_id
    where o.seq = f.seq and f.change = 'delivered' and $3 and (select count(*) from audited) >= 0
), updated as (
    update {outbox} as o
    set status = case f.change when 'requeued' then 'pending' else f.change end,
        attempts = case f.change when 'requeued' then 0 else o.attempts end,
        due_at = null, owner = null,
        last_error = case f.change when 'delivered' then null else coalesce(f.error, o.last_error) end,
        settled_at = case f.change when 'requeued' then null else $1 end
    from found as f
    join ready as r on r.id = f.saga_id
    where o.seq = f.seq and not (f.change = 'delivered' and $3) and (select count(*) from audited) >= 0
), staged as (
    insert into {outbox} (event_id, route, type, payload, content_type, headers, tenant, correlation_id, group_id,
        hlc, max_attempts)
    select n.event_id, r.route, n.type, n.payload, n.content_type, n.headers::jsonb, n.tenant, n.correlation_id, r.id,
        n.hlc, n.max_attempts
    from unnest($23::text[], $24::uuid[], $25::text[], $26::bytea[], $27::text[], $28::text[], $29::text[],
            $30::text[], $31::bigint[], $32::integer[])
        with ordinality as n(saga_id, event_id, type, payload, content_type, headers, tenant, correlation_id, hlc,
            max_attempts, place)
    cross join generate_series(1, 1 + 0 * cardinality($4::text[])) as g
    join ready as r on r.id = n.saga_id
    where g = 1
    order by n.place
), moved as (
    update {saga} as s
    set status = r.status, dead = r.dead, due_at = r.due_at, body = r.body, version = s.version + 1, updated_at = $1,
        ended_at = case when r.ended then $1 else s.ended_at end
    from ready as r
    where s.id = r.id and (select count(*) from audited) >= 0
)
select id from ready
