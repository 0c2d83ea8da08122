-- What waits behind dead entries, per route and status; and whom the most wait for ($1 of each route), as rows without a
-- status. Only the lanes of the dead are looked at, and these behind the first of them.
with {heads}, behind as materialized (
    select e.route, e.status, h.seq as head, count(*) as entries
    from (select route, lane, min(seq) as seq from heads group by route, lane) as part
    cross join lateral (
        select o.route, o.key, o.seq, o.status
        from {outbox} as o
        where o.route = part.route and {lane_of_o} = part.lane and o.status > 'in_flight' and o.seq > part.seq
        order by o.seq
        offset 0
    ) as e
    join heads as h on h.route = e.route and h.key = e.key and h.seq < e.seq
    group by e.route, e.status, h.seq
), ranked as (
    select route, head, sum(entries) as entries,
        row_number() over (partition by route order by sum(entries) desc, head) as place
    from behind
    group by route, head
)
select route::text, status::text, sum(entries)::bigint as entries, null::uuid as head, null::text as key
from behind
group by route, status
union all
select r.route::text, null, r.entries::bigint, d.event_id, d.key
from ranked as r
join {outbox} as d on d.seq = r.head
where r.place <= $1
order by entries desc
