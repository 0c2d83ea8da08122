-- The events of a call that are there, when some of its events were duplicates, and whether with the stamp that the call
-- gave them. ?1 route, ?2 the events as a JSON array of arrays
select cast(hex(entry.event_id) as binary), cast(entry.hlc <=> event.hlc as binary)
from json_table(convert(?2 using utf8mb4), '$[*]' columns (id varchar(36) {text} path '$[0]', hlc bigint path '$[12]')) as event
straight_join {outbox} as entry force index ({event_index})
  on entry.event_id = unhex(replace(event.id, '-', repeat('-', 0))) and entry.route = ?1
