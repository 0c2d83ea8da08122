-- Takes suspects under a lease: these rows of suspects.sql, as far as they are still there.
-- The rows are found by their numbers: nothing else is an index for them.
-- ?1 now or null, ?2 route, ?3 [seq, …], ?4 lease in microseconds, ?5 owner
with
clock (now) as materialized (select coalesce(?1, {now}))
update {outbox} not indexed set
  status = 'in_flight',
  attempts = attempts + 1,
  fence = max(fence + 1, (select now from clock)),
  owner = ?5,
  due_at = (select now from clock) + ?4,
  leased_at = (select now from clock),
  last_attempt_at = (select now from clock)
where seq in (select value from json_each(?3)) and route = ?2 and status = 'retrying' and due_at is null
  and not exists (select 1 from {lane_session} where route = ?2)
returning {columns}
