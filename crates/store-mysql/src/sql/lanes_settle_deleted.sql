-- Deliveries that are not kept. ?1 now or null and ?2 attempts, which nothing here needs, ?3 route
delete entry from {outbox} as entry force index (primary) where seq in ({list}) and route = ?3 and live_lane is not null and {plain}
