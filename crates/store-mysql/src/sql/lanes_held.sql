-- What a session holds, a row a lane; one row without a lane if it holds none, and without `handed` if it was taken for
-- dead. ?1 route, ?2 session
select {now}, reader.handed, held.lane, held.fence, held.revision
from (select 1 as one) as one
left join {lane_session} as reader on reader.route = ?1 and reader.session = ?2
left join {lane} as held on held.route = reader.route and held.session = reader.session
