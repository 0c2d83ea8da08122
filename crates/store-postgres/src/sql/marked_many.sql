-- Which of these events a consumer has seen. $1 consumer, $2 event ids
select event_id::text from {inbox} where consumer = $1::text and event_id = any($2::text[]::uuid[])
