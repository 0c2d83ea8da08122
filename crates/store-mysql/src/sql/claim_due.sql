-- The last arm of claim_staged.sql, for a batch that fresh entries do not fill.
-- ?1 now or null, ?2 route, ?3 limit, ?4 attempts where the entry does not say, ?5 whether steps of sagas are taken too
select {columns}, coalesce(?1, {now}) from {outbox} force index ({open_index})
where live = 1 and route = ?2 and due_at <= coalesce(?1, {now}) and status <> 'in_flight'
  and {counted} < coalesce(max_attempts, ?4) and (?5 or {plain})
order by due_at, priority, seq
limit ?3
for update skip locked
