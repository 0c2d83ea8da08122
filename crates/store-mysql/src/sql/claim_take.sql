-- Takes rows that this transaction has locked under a lease. Whether they are still free is asked once more: a claim must not
-- depend on what the server skips. ?1 now, ?2 lease in microseconds, ?3 owner
update {outbox} force index (primary)
set
  status = 'in_flight',
  attempts = attempts + 1,
  -- At least the clock: it grows even when the write of the last claim was lost in a crash.
  fence = greatest(fence + 1, ?1),
  owner = ?3,
  due_at = ?1 + ?2,
  leased_at = ?1,
  last_attempt_at = ?1,
  room = ''
where seq in ({list}) and status <> 'in_flight'
