-- Marks events as seen by a consumer; changes no row for those that were. The ids come sorted, so that two transactions with
-- the same events do not deadlock. ?1 consumer, ?2 event ids as JSON, ?3 now or null
insert ignore into {inbox} (consumer, event_id, accepted_at)
select ?1, unhex(replace(event.id, '-', repeat('-', 0))), coalesce(?3, {now})
from json_table(convert(?2 using utf8mb4), '$[*]' columns (id varchar(36) {text} path '$')) as event
