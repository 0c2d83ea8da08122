-- Takes locks on fresh entries, in causal order: like claim_staged.sql, in the order of the causal index.
-- ?1 now or null, ?2 route, ?3 limit, ?4 attempts where the entry does not say, ?5 whether steps of sagas are taken too.
select {columns}, coalesce(?1, {now}) from {outbox} force index ({causal_index})
where part = 1 and route = ?2 and at is null and status <> 'in_flight'
  and {counted} < coalesce(max_attempts, ?4) and (?5 or {plain})
  and not exists (select 1 from {lane_session} where route = ?2)
order by hlc_order, created_at, seq
limit ?3
for update skip locked
