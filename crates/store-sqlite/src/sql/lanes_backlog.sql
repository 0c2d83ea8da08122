-- What waits in each lane of a route, counted along the index of the lane up to ?2, and which relay holds the lane.
-- ?1 route, ?2 most entries of a lane
select held.lane,
  (select count(*) from (
    select 1 from {outbox} as entry
    where entry.route = held.route and entry.lane = held.lane and {unsettled}
    limit ?2)),
  reader.owner
from {lane} as held
left join {lane_session} as reader on reader.route = held.route and reader.session = held.session
where held.route = ?1
order by held.lane
