-- Counts the attempt that a dead session may have made, and buries what has none left. Runs under the write lock that
-- lanes_in_flight.sql was read under, so nothing has to be looked at again. ?1 now, ?2 [[seq, spent, error], …]
with stale (seq, spent, error) as materialized (
  select value ->> 0, value ->> 1, value ->> 2 from json_each(?2))
update {outbox} as entry set
  status = iif(stale.spent, 'dead', 'retrying'),
  attempts = entry.attempts + 1,
  crashes = entry.crashes + 1,
  due_at = null,
  last_error = stale.error,
  last_attempt_at = ?1,
  settled_at = iif(stale.spent, ?1, null)
from stale
where entry.seq = stale.seq
