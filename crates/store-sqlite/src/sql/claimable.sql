-- Whether a claim would find anything. An idle relay asks this, which takes no write lock, and so is in no writer's way.
-- ?1 now or null, ?2 route, ?3 attempts where the entry does not say, ?4 whether steps of sagas are taken too
select not exists (select 1 from {lane_session} where route = ?2)
  and not exists (select 1 from {route_state} where route = ?2 and paused_at is not null) and (
  exists (
    select 1 from {outbox}
    where route = ?2 and due_at is not null and due_at <= coalesce(?1, {now})
      and status <> 'in_flight' and {counted} < coalesce(max_attempts, ?3) and (?4 or {plain}))
  or exists (
    select 1 from {outbox}
    where route = ?2 and due_at is null and {live}
      and (status = 'pending' or status = 'retrying' and crashes = 0) and {counted} < coalesce(max_attempts, ?3)
      and (?4 or {plain})))
