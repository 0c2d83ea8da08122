-- How many entries of a route and a status a purge deletes. ?1 now or null, ?2 age in microseconds, ?3 limit,
-- ?4 number of the status, ?5 route
select count(*) from (
  select 1 from {outbox} force index ({open_index})
  where part = ?4 and route = ?5 and at <= coalesce(?1, {now}) - ?2
  limit ?3) as settled
