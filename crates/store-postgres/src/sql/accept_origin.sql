-- Marks an event as seen, unless it was published by an owner that had lost its lane by then: one with a higher fence
-- stands before it in the same stream. A plain read: nobody waits here for who remembers an owner.
-- $1 consumer, $2 event id, $3 now or null, $4 lane, $5 fence, $6 stream, $7 position
with known as materialized (
    select fence, stream = $6 and position < $7 as before
    from {inbox_fence} where consumer = $1 and lane = $4
), stale as materialized (
    select exists (select from known where fence > $5 and before) as refused
), marked as (
    insert into {inbox} (consumer, event_id, accepted_at)
    select $1, $2, coalesce($3, statement_timestamp()) from stale where not refused
    on conflict (consumer, event_id) do nothing
    returning 1
)
select
    exists (select from marked) as fresh,
    refused and not exists (select from {inbox} where consumer = $1 and event_id = $2) as stale,
    not refused and coalesce((select fence from known) < $5, true) as newer
from stale
