-- Marks an event as seen. A concurrent duplicate waits here for the end of the other transaction.
insert into {inbox} (consumer, event_id, accepted_at)
values ($1, $2, coalesce($3, statement_timestamp()))
on conflict (consumer, event_id) do nothing
