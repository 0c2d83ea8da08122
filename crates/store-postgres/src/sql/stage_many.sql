-- Stages any number of events: one array a column, so that the number of parameters stays the same. As in
-- `stage_one.sql`, the casts are here. The ordinality keeps the order of staging; an id that comes twice in one call
-- conflicts with itself.
insert into {outbox} (event_id, route, type, key, payload_bytes, content_type, headers, tenant, correlation_id,
    causation_id, execution_id, occurred_at, priority, group_id, hlc, max_attempts, due_at)
select e.event_id, $1::text, e.type, e.key, e.payload, e.content_type, e.headers::jsonb, e.tenant, e.correlation_id,
    e.causation_id, e.execution_id, e.occurred_at, e.priority, e.group_id, e.hlc, e.max_attempts,
    statement_timestamp() + e.delay * interval '1 microsecond'
from unnest($2::text[]::uuid[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::text[], $8::text[], $9::text[],
        $10::text[], $11::text[], $12::text[]::timestamptz[], $13::bigint[], $14::text[], $15::bigint[],
        $16::bigint[], $17::bigint[])
    with ordinality as e(event_id, type, key, payload, content_type, headers, tenant, correlation_id,
        causation_id, execution_id, occurred_at, priority, group_id, hlc, max_attempts, delay, place)
order by e.place
on conflict (event_id, route) do nothing
returning event_id::text
