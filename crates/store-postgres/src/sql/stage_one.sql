-- Stages one event. Also what `Outbox::statement` hands to other drivers: hence every parameter is text,
-- bytes or a whole number, and the casts are here.
insert into {outbox} (event_id, route, type, key, payload_bytes, content_type, headers, tenant, correlation_id,
    causation_id, execution_id, occurred_at, priority, group_id, hlc, max_attempts, due_at)
values ($1::text::uuid, $2::text, $3::text, $4::text, $5::bytea, $6::text, $7::text::jsonb, $8::text, $9::text,
    $10::text, $11::text, $12::text::timestamptz, $13::bigint, $14::text, $15::bigint, $16::bigint,
    statement_timestamp() + $17::bigint * interval '1 microsecond')
on conflict (event_id, route) do nothing
