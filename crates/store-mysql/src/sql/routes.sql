-- The next route that has an entry in a part of the open index. Asked for again and again it tells all of them: neither server
-- would go from one to the next by itself. ?1 part, ?2 the route before, or nothing
select route from {outbox} force index ({open_index})
where part = ?1 and route > ?2
order by part, route
limit 1
