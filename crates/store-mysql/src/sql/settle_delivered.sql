-- Deliveries, and nothing else: nearly every batch. ?1 now or null, ?2 [[seq, fence], …]
update {held:2} as held
straight_join {outbox} as entry force index (primary) on entry.seq = held.seq and entry.fence = held.fence
set
  entry.status = 'delivered',
  entry.due_at = null,
  entry.owner = null,
  entry.last_error = null,
  entry.settled_at = coalesce(?1, {now})
where entry.status = 'in_flight'
