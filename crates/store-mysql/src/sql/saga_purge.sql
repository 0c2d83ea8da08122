-- The oldest go first, along the index. ?1 now or null, ?2 age in microseconds, ?3 limit
delete from {saga} where ended_at <= coalesce(?1, {now}) - ?2 order by ended_at limit ?3
