-- Takes locks on fresh entries, in the order of staging, which is that of the index: nothing is sorted, whatever the backlog
-- is. Entries that another transaction has locked are skipped. Entries that come back (claim_back.sql) and entries whose time
-- has come (claim_due.sql) have statements of their own: of a union, MariaDB would copy all rows into a table on disk.
-- ?1 now or null, ?2 route, ?3 limit, ?4 attempts where the entry does not say, ?5 whether steps of sagas are taken too.
-- A route that is read by lanes has no rows for a claim, which would break the order of its keys.
select {columns}, coalesce(?1, {now}) from {outbox} force index ({open_index})
where part = 1 and route = ?2 and at is null and status <> 'in_flight'
  and {counted} < coalesce(max_attempts, ?4) and (?5 or {plain})
  and not exists (select 1 from {lane_session} where route = ?2)
order by priority, seq
limit ?3
for update skip locked
