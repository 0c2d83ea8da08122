-- What live lanes have handed out: nothing of that is stored in the entries. What waits behind a dead entry is in nobody's
-- hands. Of the order of what was read see `lanes_read.sql`.
with {heads}
select l.route::text, e.status::text, count(*) as entries
from {lane} as l
join {lane_session} as s on s.route = l.route and s.session = l.session
cross join lateral (
    select h.handed from {lane_handed} as h
    where h.route = s.route and h.session = s.session
    order by h.handed desc limit 1
) as h
cross join lateral (
    select key, seq, status from {outbox}
    where route = l.route and {lane_of} = l.lane and status > 'in_flight' and seq <= h.handed
        and (due_at is null or due_at <= coalesce($1, statement_timestamp())) and {plain}
    order by seq
    offset 0
) as e
where not exists (select from heads as d where d.route = l.route and d.key = e.key and d.seq < e.seq)
group by l.route, e.status
