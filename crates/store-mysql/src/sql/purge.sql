-- Deletes what was settled long enough ago, never the dead; the oldest of one status first, along the index.
-- ?1 now or null, ?2 age in microseconds, ?3 limit, ?4 number of the status
delete from {outbox} where ended = ?4 and settled_at <= coalesce(?1, {now}) - ?2 order by settled_at limit ?3
