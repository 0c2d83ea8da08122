-- The events that a call has just staged, when some of its events were duplicates. Whoever stages has the write lock,
-- and a new row has the highest number of all: the newest rows are the ones of that call. ?1 how many
select event_id from {outbox} order by seq desc limit ?1
