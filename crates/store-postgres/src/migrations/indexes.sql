-- The indexes and the functions: made by every migration, and again by `migrate` when one is missing.

-- One entry per route and event id. The id comes first, so that an event is also found without its route.
create unique index if not exists {event_index} on {outbox} (event_id, route);

-- Open: everything that is not at its end, in the order of claiming. First what is due at once, and of that what somebody had
-- (retrying, or in flight without a lease's end, which the reaper looks for) before what is pending. Then what is due at a
-- time: delayed, retrying, and in flight until the lease's end, so that a claim writes at the end. One index for all of it,
-- because every index costs every insert something, also where the new entry is not in it. No two places of it are the same,
-- so the server need not look for such before it divides a page.
create index if not exists {open_index} on {outbox} (route, due_at nulls first, status, priority, seq)
    with (deduplicate_items = off) where status >= 'in_flight';

-- What lanes read, in their order; see the lane of an entry in tables.rs. A row that was claimed is not theirs until it
-- is reaped. An index on what the lane is computed from costs a third of a generated column, which would be read anew
-- for each statement as the checks are. The lane comes first: numbers are compared faster than names.
create index if not exists {lane_index} on {outbox} ({lane_of}, route, seq)
    with (deduplicate_items = off) where status > 'in_flight';

-- At their end: for retention and counts. The group is what a sweep looks for among the dead.
create index if not exists {ended_index} on {outbox} (status, settled_at, route, group_id)
    where status < 'in_flight';

create index if not exists {audit_event_index} on {audit} (event_id, seq)
    where event_id is not null;

-- The audit trail of a subject, and of one saga.
create index if not exists {audit_subject_index} on {audit} (subject_kind, subject_value, seq)
    where subject_kind is not null;
create index if not exists {audit_saga_index} on {audit} (saga_id, seq)
    where saga_id is not null;

-- What else a sweep looks for: sagas that know of dead steps, and sagas whose time has come.
create index if not exists {saga_dead_index} on {saga} (id) where dead > 0;
create index if not exists {saga_due_index} on {saga} (due_at) where due_at is not null;
-- Sagas of a route that have not ended, for relays that leave their steps alone.
create index if not exists {saga_open_index} on {saga} (route) where ended_at is null;
-- For lists and counts.
create index if not exists {saga_status_index} on {saga} (status, created_at, id);
-- For purging sagas by age.
create index if not exists {saga_ended_index} on {saga} (ended_at) where ended_at is not null;

-- For purging the inbox by age.
create index if not exists {inbox_age_index} on {inbox} (accepted_at);

-- Stages one event inside the caller's transaction and returns its id; the same id on the same route again
-- is one entry. JSON only: other payloads are staged with a plain INSERT.
create or replace function {stage}(
    route          text,
    type           text,
    payload        jsonb,
    key            text        default null,
    headers        jsonb       default '{}',
    event_id       uuid        default null,
    delay          interval    default null,
    content_type   text        default 'application/json',
    tenant         text        default null,
    correlation_id text        default null,
    causation_id   text        default null,
    execution_id   text        default null,
    occurred_at    timestamptz default null,
    priority       integer     default 100,
    group_id       text        default null,
    max_attempts   integer     default null
) returns uuid language sql volatile set search_path = pg_catalog, pg_temp as $function$
    with fresh as materialized (
        select coalesce($6, gen_random_uuid()) as id
    ), staged as (
        insert into {outbox} (route, type, payload, key, headers, event_id, due_at, content_type, tenant,
            correlation_id, causation_id, execution_id, occurred_at, priority, group_id, max_attempts)
        select $1, $2, $3::text, $4, $5, fresh.id,
            case when $7 > interval '0' then statement_timestamp() + $7 end, $8, $9,
            $10, $11, $12, $13, $14, $15, $16
        from fresh
        on conflict (event_id, route) do nothing
    )
    select id from fresh
$function$;

-- Takes the turn of a key until the caller's transaction ends; two that stage it at the same time are unordered
-- without. Call it before staging.
create or replace function {serialize}(route text, key text)
returns void language sql volatile set search_path = pg_catalog, pg_temp as $function$
    select pg_advisory_xact_lock(hashtextextended($1 || chr(31) || $2, 0))
$function$;

-- Whether rows of a route may be claimed: nobody reads it by lanes. A claim and the first sign of life of a reader may be
-- under way at the same time, and then the claim's own snapshot does not show the session. So this function first takes the
-- lock that claims share, then looks with a snapshot of its own, which a volatile function has; whoever has joined waits
-- until that lock is free before it reads. Either the claim sees the session, or the reader sees what was claimed.
create or replace function {may_claim}(of_route text)
returns boolean language plpgsql volatile set search_path = pg_catalog, pg_temp as $function$
begin
    perform pg_try_advisory_xact_lock_shared(7458911, '{outbox}'::regclass::oid::integer);
    return not exists (select from {lane_session} as s where s.route = of_route);
end
$function$;
