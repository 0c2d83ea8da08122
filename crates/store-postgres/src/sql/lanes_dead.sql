-- The dead of a route that have a key, by lane.
select seq, key, {lane_of}::smallint as lane
from {outbox}
where status = 'dead' and route = $1 and key is not null and {lane_of} = any ($2::smallint[])
