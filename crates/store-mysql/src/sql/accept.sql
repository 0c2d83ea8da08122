-- Marks an event as seen by a consumer. A concurrent duplicate waits here for the end of the other transaction. The id that
-- the server tells is 2 for a new mark and 1 for a duplicate: the number of rows is the same for both.
-- ?1 consumer, ?2 event id, ?3 now or null
insert into {inbox} (consumer, event_id, accepted_at) values (?1, ?2, if(last_insert_id(2) = 2, coalesce(?3, {now}), 0))
on duplicate key update accepted_at = if(last_insert_id(1) = 1, accepted_at, accepted_at)
