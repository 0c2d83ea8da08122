-- Takes locks on the first entries that came back from an expired lease.
-- ?1 now or null, ?2 route, ?3 limit, ?4 attempts where the entry does not say, ?5 whether steps of sagas are taken too
select {columns}, coalesce(?1, {now}) from {outbox} force index ({open_index})
where part = 2 and route = ?2 and at is null and status = 'retrying' and crashes > 0
  and {counted} < coalesce(max_attempts, ?4) and (?5 or {plain})
  and not exists (select 1 from {lane_session} where route = ?2)
order by seq
limit ?3
for update skip locked
