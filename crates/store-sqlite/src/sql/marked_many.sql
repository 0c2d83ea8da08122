-- Which of these events a consumer has seen. ?1 consumer, ?2 event ids as JSON
select event_id from {inbox} where consumer = ?1 and event_id in (select value from json_each(?2))
