-- The lanes of a route, before anything is counted in them, and which relay holds each. ?1 route
select held.lane, 0 as entries, reader.owner
from {lane} as held
left join {lane_session} as reader on reader.route = held.route and reader.session = held.session
where held.route = ?1
order by held.lane
