-- Whether a claim would find anything. An idle relay asks this, which takes no write lock, and so is in no writer's way.
-- ?1 now or null, ?2 route, ?3 attempts where the entry does not say, ?4 whether steps of sagas are taken too
select exists (
    select 1 from {outbox}
    where route = ?2 and due_at is not null and due_at <= coalesce(?1, {now})
      and attempts < coalesce(max_attempts, ?3) and (?4 or {plain}))
  or exists (
    select 1 from {outbox}
    where route = ?2 and due_at is null and {live}
      and attempts < coalesce(max_attempts, ?3) and (?4 or {plain}))
