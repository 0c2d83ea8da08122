-- What becomes of the entries of sagas. ?1 now, ?2 [[seq, fence, status before, change, failure], …]
with change (fields) as materialized (select value from json_each(?2))
update {outbox} as entry set
  status = iif(fields ->> 3 = 'requeued', 'pending', fields ->> 3),
  attempts = iif(fields ->> 3 = 'requeued', 0, entry.attempts),
  crashes = iif(fields ->> 3 = 'requeued', 0, entry.crashes),
  due_at = null,
  owner = null,
  last_error = iif(fields ->> 3 = 'delivered', null, coalesce(fields ->> 4, entry.last_error)),
  settled_at = iif(fields ->> 3 = 'requeued', null, ?1)
from change
where entry.seq = fields ->> 0 and entry.fence = fields ->> 1 and entry.status = fields ->> 2
