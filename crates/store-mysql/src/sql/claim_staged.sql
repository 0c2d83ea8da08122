-- Takes locks on due entries, in the order of staging. Entries that another transaction has locked are
-- skipped. Three arms, each in the order of an index, so that nothing is sorted whatever the backlog is: fresh entries,
-- entries that were released or hastened, and entries whose time has come. Of the last, at most half a batch.
-- ?1 now or null, ?2 route, ?3 limit, ?4 half of it, ?5 attempts where the entry does not say,
-- ?6 whether steps of sagas are taken too.
-- A route that is read by lanes has no rows for a claim, which would break the order of its keys.
(select {columns}, coalesce(?1, {now}) from {outbox} force index ({open_index})
where live = 1 and route = ?2 and due_at is null and status <> 'in_flight'
  and {counted} < coalesce(max_attempts, ?5) and (?6 or {plain})
  and not exists (select 1 from {lane_session} where route = ?2)
order by priority, seq
limit ?3
for update skip locked)
union all
(select {columns}, coalesce(?1, {now}) from {outbox} force index ({open_index})
where live = 2 and route = ?2 and due_at is null and (status = 'pending' or status = 'retrying' and crashes = 0)
  and {counted} < coalesce(max_attempts, ?5) and (?6 or {plain})
  and not exists (select 1 from {lane_session} where route = ?2)
order by priority, seq
limit ?3
for update skip locked)
union all
(select {columns}, coalesce(?1, {now}) from {outbox} force index ({open_index})
where live = 1 and route = ?2 and due_at <= coalesce(?1, {now}) and status <> 'in_flight'
  and {counted} < coalesce(max_attempts, ?5) and (?6 or {plain})
  and not exists (select 1 from {lane_session} where route = ?2)
order by due_at, priority, seq
limit ?4
for update skip locked)
