-- Claims that still stand, with their entries and sagas, locked until the transaction ends. ?1 [[seq, fence], …]
select entry.seq, entry.fence, entry.event_id, entry.attempts, entry.last_error, {saga_columns}
from (select * from {held:1} as list) as held
straight_join {outbox} as entry force index (primary) on entry.seq = held.seq and entry.fence = held.fence
left join {saga} as saga on saga.id = entry.group_id
where entry.status = 'in_flight'
for update
