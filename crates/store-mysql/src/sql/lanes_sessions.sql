-- Who shares a route, in the order of joining, and how many can, as each says: none while it is paused. ?1 route
select session, if(exists (select 1 from {route_state} where route = ?1 and paused_at is not null), 0, shares)
from {lane_session} where route = ?1 order by `rank`
