-- What is open in some lanes, by the index alone. Lanes that have little: there is no limit for each of them, only for all
-- together. ?1 route, ?2 limit
select live_lane, seq from {outbox} force index ({lane_index})
where live_lane in ({list}) and route = ?1
limit ?2
