-- Which of these events a consumer has seen. A concurrent duplicate waits here for the end of the other transaction.
-- MySQL would lock the list itself, and refuses that: so it stands in a select of its own. ?1 consumer, ?2 event ids as JSON
select cast(event.id as binary)
from (select listed.id from json_table(convert(?2 using utf8mb4), '$[*]' columns (id varchar(36) {text} path '$')) as listed) as event
straight_join {inbox} as seen on seen.consumer = ?1 and seen.event_id = unhex(replace(event.id, '-', repeat('-', 0)))
lock in share mode
