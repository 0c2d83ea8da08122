-- Lanes of which nothing new was seen for long; the next message of one brings it back. As few as there are lanes and
-- consumers. ?1 now or null, ?2 age in microseconds
delete from {inbox_fence} where seen_at <= coalesce(?1, {now}) - ?2
