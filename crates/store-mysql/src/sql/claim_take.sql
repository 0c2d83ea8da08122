-- Takes rows that this transaction has locked under a lease. ?1 now, ?2 lease in microseconds, ?3 owner, ?4 [seq, …]
update {seqs:4} as picked
straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq
set
  entry.status = 'in_flight',
  entry.attempts = entry.attempts + 1,
  -- At least the clock: it grows even when the write of the last claim was lost in a crash.
  entry.fence = greatest(entry.fence + 1, ?1),
  entry.owner = ?3,
  entry.due_at = ?1 + ?2,
  entry.leased_at = ?1,
  entry.last_attempt_at = ?1
