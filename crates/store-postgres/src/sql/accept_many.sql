-- Marks events as seen, and returns those that were not. A concurrent duplicate waits here for the end of the other
-- transaction. The ids come sorted, so that two transactions with the same events do not deadlock.
-- $1 consumer, $2 event ids, $3 now or null
insert into {inbox} (consumer, event_id, accepted_at)
select $1::text, e.event_id, coalesce($3::text::timestamptz, statement_timestamp())
from unnest($2::text[]::uuid[]) with ordinality as e(event_id, place)
order by e.place
on conflict (consumer, event_id) do nothing
returning event_id::text
