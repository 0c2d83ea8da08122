-- Carries decisions on sagas out, each of them whole or not at all.
-- Sagas are locked in the order of their ids, and after them their entries in the order of staging. A saga that has
-- moved since it was read, or one of whose entries is not as it was, is left as it is and not returned. The audit
-- records are counted, and so written, before anything that they explain.
-- Every list names a saga by its place among the sagas, and whether a saga is to be written is an element of an array:
-- no list is joined with another one, so nothing depends on how long the planner takes them for. Rows of tables are
-- looked up one by one, in an order that is made before.
with wanted as materialized (
    select w.id, w.version, w.status, w.dead, w.due_at, w.body, w.ended, w.place
    from unnest($4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::timestamptz[], $9::text[], $10::boolean[])
        with ordinality as w(id, version, status, dead, due_at, body, ended, place)
), locked as materialized (
    select w.place, s.id is not null as stands
    from (select w.id, w.version, w.place from wanted as w order by w.id) as w
    left join lateral (
        select s.id from {saga} as s where s.id = w.id and s.version = w.version for update
    ) as s on true
), standing as materialized (
    select array_agg(l.stands order by l.place) as sagas from locked as l
), found as materialized (
    select e.saga, e.seq, e.change, e.error, o.seq is not null as stands
    from (
        select e.saga, e.seq, e.fence, e.seen, e.change, e.error
        from unnest($11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::text[])
            as e(saga, seq, fence, seen, change, error)
        where (select s.sagas from standing as s)[e.saga]
        order by e.seq
    ) as e
    left join lateral (
        select o.seq from {outbox} as o where o.seq = e.seq and o.fence = e.fence and o.status = e.seen::{status} for update
    ) as o on true
), fallen as materialized (
    select coalesce(array_agg(f.saga), '{}') as sagas from found as f where not f.stands
), ready as materialized (
    select array_agg(l.stands and l.place <> all (f.sagas) order by l.place) as sagas
    from locked as l cross join fallen as f
), audited as (
    insert into {audit} (at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail)
    select $1, a.kind, $2, a.route, a.event_id, a.saga_id, a.subject_kind, a.subject_value, a.step, a.detail
    from unnest($17::bigint[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::uuid[],
            $24::text[], $25::text[])
        with ordinality as a(saga, saga_id, route, subject_kind, subject_value, kind, event_id, step, detail, place)
    where (select r.sagas from ready as r)[a.saga]
    order by a.place
    returning 1
), deleted as (
    delete from {outbox} as o
    using found as f
    where o.seq = f.seq and f.change = 'delivered' and $3 and (select r.sagas from ready as r)[f.saga]
        and (select count(*) from audited) >= 0
), updated as (
    update {outbox} as o
    set status = case f.change when 'requeued' then 'pending' else f.change end,
        attempts = case f.change when 'requeued' then 0 else o.attempts end,
        crashes = case f.change when 'requeued' then 0 else o.crashes end,
        due_at = null, owner = null,
        last_error = case f.change when 'delivered' then null else coalesce(f.error, o.last_error) end,
        settled_at = case f.change when 'requeued' then null else $1 end
    from found as f
    where o.seq = f.seq and not (f.change = 'delivered' and $3) and (select r.sagas from ready as r)[f.saga]
        and (select count(*) from audited) >= 0
), staged as (
    insert into {outbox} (event_id, route, type, payload_bytes, content_type, headers, tenant, correlation_id, group_id,
        hlc, max_attempts)
    select n.event_id, n.route, n.type, n.payload, n.content_type, n.headers::jsonb, n.tenant, n.correlation_id,
        n.saga_id, n.hlc, n.max_attempts
    from unnest($26::bigint[], $27::text[], $28::text[], $29::uuid[], $30::text[], $31::bytea[], $32::text[],
            $33::text[], $34::text[], $35::text[], $36::bigint[], $37::integer[])
        with ordinality as n(saga, saga_id, route, event_id, type, payload, content_type, headers, tenant,
            correlation_id, hlc, max_attempts, place)
    where (select r.sagas from ready as r)[n.saga]
    order by n.place
), moved as (
    update {saga} as s
    set status = w.status, dead = w.dead, due_at = w.due_at, body = w.body, version = s.version + 1, updated_at = $1,
        ended_at = case when w.ended then $1 else s.ended_at end
    from wanted as w
    where s.id = w.id and (select r.sagas from ready as r)[w.place] and (select count(*) from audited) >= 0
)
select w.id from wanted as w where (select r.sagas from ready as r)[w.place]
