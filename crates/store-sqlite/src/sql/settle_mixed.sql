-- Records verdicts other than deliveries; what the fence or the status refuses is not returned.
-- ?1 now or null, ?2 [[seq, fence, verdict, wait in microseconds, failure], …]
with
clock (now) as materialized (select coalesce(?1, {now})),
row (fields) as materialized (select value from json_each(?2)),
verdict (seq, fence, name, wait, failure) as materialized (
  select fields ->> 0, fields ->> 1, fields ->> 2, fields ->> 3, fields ->> 4 from row)
update {outbox} as entry set
  status = case verdict.name
    when 'released' then iif(entry.attempts <= 1, 'pending', 'retrying')
    when 'parked' then 'pending'
    else verdict.name end,
  attempts = iif(verdict.name = 'parked', 0, max(entry.attempts - (verdict.name = 'released'), 0)),
  crashes = iif(verdict.name = 'parked', 0, entry.crashes),
  due_at = iif(verdict.name in ('retrying', 'parked'), min((select now from clock) + verdict.wait, 253402300799999999), null),
  owner = null,
  last_error = coalesce(verdict.failure, entry.last_error),
  settled_at = iif(verdict.name = 'dead', (select now from clock), null)
from verdict
where entry.seq = verdict.seq and entry.fence = verdict.fence and entry.status = 'in_flight'
returning seq, fence
