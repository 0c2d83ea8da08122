-- The first entries of some lanes, $2 of each, so that a page costs as much whatever waits behind it. Nothing is known of what
-- follows in a lane that was cut: so nothing counts that was staged later than the first cut.
{dead}, {open_route}, part as materialized (
    {parts}
), front as materialized (
    select o.*
    from part as p
    cross join lateral (
        select {narrow}, o.status = any ({wanted}) and {narrowed} as fits
        from {outbox} as o
        where {lane_of_o} = p.lane and o.route = p.route and o.status > 'in_flight' and o.seq > p.after and o.seq <= p.upto
            and (p.keys is null or o.key = any (p.keys))
        order by o.seq
        limit $2::bigint
    ) as o
), cut as materialized (
    select min(c.seq) as seq
    from (select max(f.seq) as seq from front as f group by f.route, f.lane having count(*) = $2) as c
), meant as materialized (
    select f.* from front as f
    where f.fits and f.seq <= coalesce((select c.seq from cut as c), 9223372036854775807){besides}
)