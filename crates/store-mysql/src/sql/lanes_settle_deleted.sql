-- Deliveries that are not kept. ?1 now or null, which nothing here needs, ?2 [[seq, attempts], …], ?3 route
delete entry from {held:2} as verdict
straight_join {outbox} as entry force index (primary) on entry.seq = verdict.seq
where entry.route = ?3 and entry.live_lane is not null
