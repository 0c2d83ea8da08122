-- Marks an event as seen. A concurrent duplicate waits here for the end of the other transaction.
insert into {inbox} (consumer, event_id, accepted_at)
values ($1::text, $2::text::uuid, coalesce($3::text::timestamptz, statement_timestamp()))
on conflict (consumer, event_id) do nothing
