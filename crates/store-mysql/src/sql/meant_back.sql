-- The first entries of a route that came back or have a due time, by the index of open entries alone. They are not in the order
-- of staging there, so all of them are read. Everything that retries is among them. The number of the status is taken in the
-- arms: a union makes a text of it.
-- ?1 [number of a stored status, …], ?2 route, ?3 after this seq, ?4 up to this seq, ?5 limit
select seq from (
  select seq, status + 0 as status from {outbox} force index ({open_index})
  where part = 2 and route = ?2 and seq > ?3 and seq <= ?4
  union all
  select seq, status + 0 as status from {outbox} force index ({open_index})
  where part = 1 and route = ?2 and at is not null and seq > ?3 and seq <= ?4) as back
where json_contains(?1, cast(status as char))
order by seq
limit ?5
