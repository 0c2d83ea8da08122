-- Stages one event under an id that was made for it, if it says no more than most do. The other columns have their
-- defaults: what is not bound, parsed and converted costs nothing.
insert into {outbox} (event_id, route, type, key, payload_bytes, headers, hlc)
values ($1::text::uuid, $2::text, $3::text, $4::text, $5::bytea, coalesce($6::text::jsonb, '{}'), $7::bigint)
