-- Which relay holds which lane of a route.
select l.lane::bigint, s.owner
from {lane} as l
join {lane_session} as s on s.route = l.route and s.session = l.session
where l.route = $1
