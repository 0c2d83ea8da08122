-- Claims that still stand, with their entries and sagas. ?1 [[seq, fence], …]
select entry.seq, entry.fence, entry.event_id, entry.attempts, entry.last_error, {saga_columns}
from json_each(?1) as held
join {outbox} as entry on entry.seq = held.value ->> 0 and entry.fence = held.value ->> 1
  and entry.status = 'in_flight'
left join {saga} as saga on saga.id = entry.group_id
