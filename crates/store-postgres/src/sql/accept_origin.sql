-- Marks an event as seen, unless it was published by an owner that had lost its lane by then: one with a higher fence
-- stands before it in the same stream. A plain read: nobody waits here for who remembers an owner.
-- $1 consumer, $2 event id, $3 now or null, $4 lane, $5 fence, $6 stream, $7 position
with known as materialized (
    select fence, stream = $6::text and position < $7::bigint as before
    from {inbox_fence} where consumer = $1::text and lane = $4::text
), stale as materialized (
    select exists (select from known where fence > $5::bigint and before) as refused
), marked as (
    insert into {inbox} (consumer, event_id, accepted_at)
    select $1::text, $2::text::uuid, coalesce($3::text::timestamptz, statement_timestamp()) from stale where not refused
    on conflict (consumer, event_id) do nothing
    returning 1
)
select
    (exists (select from marked))::text as fresh,
    (refused and not exists (select from {inbox} where consumer = $1::text and event_id = $2::text::uuid))::text as stale,
    (not refused and coalesce((select fence from known) < $5::bigint, true))::text as newer
from stale
