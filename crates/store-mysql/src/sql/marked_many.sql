-- Which of these events a consumer has seen. A concurrent duplicate waits here for the end of the other transaction.
-- ?1 consumer, ?2 event ids as JSON
select cast(event.id as binary)
from json_table(convert(?2 using utf8mb4), '$[*]' columns (id varchar(36) {text} path '$')) as event
straight_join {inbox} as seen on seen.consumer = ?1 and seen.event_id = unhex(replace(event.id, '-', repeat('-', 0)))
lock in share mode
