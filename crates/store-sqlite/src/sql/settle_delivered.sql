-- Deliveries, and nothing else: nearly every batch. ?1 now or null, ?2 {"seq": fence, …}
with clock (now) as materialized (select coalesce(?1, {now}))
update {outbox} as entry set
  status = 'delivered',
  due_at = null,
  owner = null,
  last_error = null,
  settled_at = (select now from clock)
from json_each(?2) as held
where entry.seq = cast(held.key as integer) and entry.fence = held.value and entry.status = 'in_flight'
