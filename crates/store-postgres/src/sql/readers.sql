-- The lanes that are held, and how far their sessions have read. Of the order of what was read see `lanes_read.sql`.
select l.route::text, l.lane::bigint, coalesce(h.handed, -1) as handed
from {lane} as l
join {lane_session} as s on s.route = l.route and s.session = l.session
left join lateral (
    select h.handed from {lane_handed} as h
    where h.route = s.route and h.session = s.session
    order by h.handed desc limit 1
) as h on true
