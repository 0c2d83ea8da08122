-- How many entries wait in one lane, counted along its index up to a limit. One arm a lane: see lanes_open.sql. An arm
-- that finds nothing has no lane. ?1 lane, ?2 route, ?3 limit
(select max(live_lane) as lane, count(*) as entries
from (
  select live_lane from {outbox} force index ({lane_index})
  where live_lane = ?1 and route = ?2
  limit ?3) as waiting)
