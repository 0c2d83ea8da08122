-- Deliveries, of lanes that the session holds. ?1 now or null, ?2 [[seq, attempts], …], ?3 route
update {held:2} as verdict
straight_join {outbox} as entry force index (primary) on entry.seq = verdict.seq
set
  entry.status = 'delivered',
  entry.attempts = greatest(entry.attempts, verdict.fence),
  entry.due_at = null,
  entry.last_error = null,
  entry.last_attempt_at = coalesce(?1, {now}),
  entry.settled_at = coalesce(?1, {now})
where entry.route = ?3 and entry.live_lane is not null
