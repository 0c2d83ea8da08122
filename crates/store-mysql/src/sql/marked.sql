-- Whether a consumer has seen an event. ?1 consumer, ?2 event id
select cast(exists (select 1 from {inbox} where consumer = ?1 and event_id = ?2) as binary)
