-- Prolongs leases that are still held. ?1 now or null, ?2 lease in microseconds, ?3 {"seq": fence, …}
with clock (now) as materialized (select coalesce(?1, {now}))
update {outbox} as entry set
  due_at = (select now from clock) + ?2,
  leased_at = (select now from clock)
from json_each(?3) as held
where entry.seq = cast(held.key as integer) and entry.fence = held.value and entry.status = 'in_flight'
returning seq, fence
