-- The oldest go first, along the index. ?1 now or null, ?2 age in microseconds, ?3 limit
delete from {inbox} where accepted_at <= coalesce(?1, {now}) - ?2 order by accepted_at limit ?3
