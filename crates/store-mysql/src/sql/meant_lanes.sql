-- The first entries of one lane that are pending or retrying, by the index alone. One arm a lane: see lanes_open.sql.
-- ?1 lane, ?2 route, ?3 after this seq, ?4 up to this seq, ?5 limit
(select live_lane, seq from {outbox} force index ({lane_index})
where live_lane = ?1 and route = ?2 and seq > ?3 and seq <= ?4
order by seq
limit ?5)
