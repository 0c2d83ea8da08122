-- Relays that were seen lately.
select run, route, owner, mode, wake, in_flight, circuit, down_since, outages, reason, started_at, seen_at,
    coalesce($1, statement_timestamp()), lease_until
from {relay}
where seen_at > coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
order by route collate "C", owner collate "C", started_at, run
limit $3
