-- Takes due entries under a lease. The order of the ready arm is that of staging, or the causal one: each has an index.
-- ?1 now or null, ?2 route, ?3 limit, ?4 lease in microseconds, ?5 owner, ?6 attempts where the entry does not say,
-- ?7 whether steps of sagas are taken too.
-- Two arms, each in the order of its own partial index, so that nothing is sorted whatever the backlog is.
-- The due arm may take the whole batch only while fresh entries leave room: at most half of it otherwise, so
-- that retries never starve them.
with
clock (now) as materialized (select coalesce(?1, {now})),
-- Of a paused route nothing is taken.
route_now (paused) as materialized (
  select exists (select 1 from {route_state} where route = ?2 and paused_at is not null)),
due (seq) as materialized (
  select seq from {outbox}
  where route = ?2 and due_at is not null and due_at <= (select now from clock)
    and status <> 'in_flight' and {counted} < coalesce(max_attempts, ?6) and not (select paused from route_now)
    and (?7 or {plain})
  order by due_at, seq
  limit ?3),
ready (seq) as materialized (
  select seq from {outbox}
  where route = ?2 and due_at is null and {live}
    and (status = 'pending' or status = 'retrying' and crashes = 0) and {counted} < coalesce(max_attempts, ?6)
    and not (select paused from route_now) and (?7 or {plain})
  order by {order}
  limit ?3 - min((?3 + 1) / 2, (select count(*) from due)))
update {outbox} set
  status = 'in_flight',
  attempts = attempts + 1,
  -- At least the clock: it grows even when the write of the last claim was lost in a crash.
  fence = max(fence + 1, (select now from clock)),
  owner = ?5,
  due_at = (select now from clock) + ?4,
  leased_at = (select now from clock),
  last_attempt_at = (select now from clock)
where seq in (
  select seq from ready
  union all
  select seq from (select seq from due limit ?3 - (select count(*) from ready)))
  -- Whoever reads the route by lanes keeps its keys in order, which a claim would break.
  and not exists (select 1 from {lane_session} where route = ?2)
returning {columns}
