-- Deliveries that are not kept. ?1 now or null, which nothing here needs, ?2 [[seq, fence], …]
delete entry from {held:2} as held
straight_join {outbox} as entry force index (primary) on entry.seq = held.seq and entry.fence = held.fence
where entry.status = 'in_flight'
