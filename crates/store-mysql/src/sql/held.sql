-- The claims that are still held, locked until the transaction ends. MySQL locks no list, unless it is a table in a table. ?1 [[seq, fence], …]
select entry.seq, entry.fence
from (select * from {held:1} as list) as held
straight_join {outbox} as entry force index (primary) on entry.seq = held.seq and entry.fence = held.fence
where entry.status = 'in_flight'
for update
