-- How many sagas a purge deletes. ?1 now or null, ?2 age in microseconds, ?3 limit
select count(*) from (select 1 from {saga} where ended_at <= coalesce(?1, {now}) - ?2 limit ?3) as old
