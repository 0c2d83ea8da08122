-- Deliveries of one claim that are not kept. ?1 now or null, which nothing here needs, ?2 fence
delete entry from {outbox} as entry force index (primary) where seq in ({list}) and fence = ?2 and status = 'in_flight'
