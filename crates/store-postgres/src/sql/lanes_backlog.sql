-- What waits in each lane of a route, counted up to $2. Of each lane only a stretch of its part of the index is read, for
-- which see `lanes_read.sql`. Steps of sagas are in no lane. Who holds the lanes is in a table that a standby cannot read.
select l.lane::bigint, e.waiting, null::text as owner
from {lane} as l
cross join lateral (
    select count(*) as waiting
    from (
        select seq from {outbox}
        where route = l.route and {lane_of} = l.lane and status > 'in_flight' and {plain}
        order by seq
        limit $2
    ) as open
) as e
where l.route = $1
order by l.lane
