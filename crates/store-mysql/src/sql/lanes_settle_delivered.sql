-- Deliveries at the same attempt, of lanes that the session holds. ?1 now or null, ?2 attempts, ?3 route
update {outbox} force index (primary)
set
  status = 'delivered',
  attempts = greatest(attempts, ?2),
  due_at = null,
  last_error = null,
  last_attempt_at = coalesce(?1, {now}),
  settled_at = coalesce(?1, {now}),
  room = ''
where seq in ({list}) and route = ?3 and live_lane is not null and {plain}
