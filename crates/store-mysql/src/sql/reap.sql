-- Returns expired leases, and buries what has no attempts left. Of entries that this transaction has locked.
-- ?1 now or null, ?2 [[seq, spent, error], …]
update {stale:2} as stale
straight_join {outbox} as entry force index (primary) on entry.seq = stale.seq
set
  entry.crashes = entry.crashes + (entry.status = 'in_flight'),
  entry.status = if(stale.spent, 'dead', 'retrying'),
  entry.due_at = null,
  entry.owner = null,
  entry.last_error = stale.error,
  entry.settled_at = if(stale.spent, coalesce(?1, {now}), null)
