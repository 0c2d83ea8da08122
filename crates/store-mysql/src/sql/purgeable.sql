-- How many entries a purge deletes: delivered ones, and discarded ones. ?1 now or null, ?2 age in microseconds, ?3 limit
select
  (select count(*) from (
    select 1 from {outbox} where ended = 4 and settled_at <= coalesce(?1, {now}) - ?2 limit ?3) as delivered),
  (select count(*) from (
    select 1 from {outbox} where ended = 6 and settled_at <= coalesce(?1, {now}) - ?2 limit ?3) as discarded)
