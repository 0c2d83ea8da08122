-- What is open in one lane, from its beginning, by the index alone. One arm a lane: neither MariaDB nor MySQL has a limit
-- for each of them that it could find by an index. ?1 lane, ?2 route, ?3 limit
(select live_lane, seq from {outbox} force index ({lane_index})
where live_lane = ?1 and route = ?2
order by seq
limit ?3)
