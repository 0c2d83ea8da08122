-- Prolongs leases that are still held. ?1 now or null, ?2 lease in microseconds, ?3 [[seq, fence], …]
with
clock (now) as materialized (select coalesce(?1, {now})),
held (seq, fence) as materialized (select value ->> 0, value ->> 1 from json_each(?3))
update {outbox} as entry set due_at = (select now from clock) + ?2
from held
where entry.seq = held.seq and entry.fence = held.fence and entry.status = 'in_flight'
returning seq, fence
