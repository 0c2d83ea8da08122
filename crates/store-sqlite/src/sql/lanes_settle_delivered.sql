-- Deliveries under one fence and with one number of attempts: nearly every batch.
-- ?1 now or null, ?2 [seq, …], ?3 route, ?4 session, ?5 fence, ?6 attempts
with clock (now) as materialized (select coalesce(?1, {now}))
update {outbox} not indexed set
  status = 'delivered',
  attempts = max(attempts, ?6),
  due_at = null,
  last_error = null,
  last_attempt_at = (select now from clock),
  settled_at = (select now from clock)
-- The pluses and `not indexed` keep the planner with the rows that are named.
where seq in (select value from json_each(?2)) and +route = ?3 and {unsettled}
  and +lane in (select lane from {lane} where route = ?3 and session = ?4 and fence = ?5)
