-- Prolongs leases that are still held. ?1 now or null, ?2 lease in microseconds, ?3 [[seq, fence], …]
update {held:3} as held
straight_join {outbox} as entry force index (primary) on entry.seq = held.seq and entry.fence = held.fence
set entry.due_at = coalesce(?1, {now}) + ?2, entry.leased_at = coalesce(?1, {now})
where entry.status = 'in_flight'
