-- Returns expired leases, and buries what has no attempts left. Runs under the write lock that stale.sql was read
-- under, so nothing has to be looked at again. ?1 now or null, ?2 [[seq, spent, error], …]
with stale (seq, spent, error) as materialized (
  select value ->> 0, value ->> 1, value ->> 2 from json_each(?2))
update {outbox} as entry set
  status = iif(stale.spent, 'dead', 'retrying'),
  crashes = entry.crashes + (entry.status = 'in_flight'),
  due_at = null,
  owner = null,
  last_error = stale.error,
  settled_at = iif(stale.spent, coalesce(?1, {now}), null)
from stale
where entry.seq = stale.seq
