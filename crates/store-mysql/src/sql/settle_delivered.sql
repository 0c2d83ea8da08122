-- Deliveries of one claim, and nothing else: nearly every batch. ?1 now or null, ?2 fence
update {outbox} force index (primary)
set
  status = 'delivered',
  due_at = null,
  owner = null,
  last_error = null,
  settled_at = coalesce(?1, {now})
where seq in ({list}) and fence = ?2 and status = 'in_flight'
