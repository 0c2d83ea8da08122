-- The newest owners of these lanes that a consumer has seen. ?1 consumer, ?2 lanes as JSON
select known.lane, cast(known.fence as binary), known.stream, cast(known.position as binary)
from json_table(convert(?2 using utf8mb4), '$[*]' columns (lane varchar(1023) {text} path '$')) as wanted
straight_join {inbox_fence} as known on known.consumer = ?1 and known.lane = cast(wanted.lane as binary)
