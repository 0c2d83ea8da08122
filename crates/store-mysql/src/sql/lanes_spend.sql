-- Counts the attempt that a dead session may have made, and buries what has none left. Of entries that this transaction has
-- locked. ?1 now, ?2 [[seq, spent, error], …]
update {stale:2} as stale
straight_join {outbox} as entry force index (primary) on entry.seq = stale.seq
set
  entry.status = if(stale.spent, 'dead', 'retrying'),
  entry.attempts = entry.attempts + 1,
  entry.crashes = entry.crashes + 1,
  entry.due_at = null,
  entry.last_error = stale.error,
  entry.last_attempt_at = ?1,
  entry.settled_at = if(stale.spent, ?1, null)
