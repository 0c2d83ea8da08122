-- Who reads lanes, and whose lease is over, for relays by rows ($1: of one route, or of all).
select route, (lease_until <= coalesce($2, statement_timestamp())
    or leased_at - coalesce($2, statement_timestamp()) > lease_until - leased_at) as over
from {lane_session}
where $1::text is null or route = $1
