-- Relays that were seen lately. ?1 now or null, ?2 age in microseconds, ?3 limit
select run, route, owner, mode, wake, in_flight, circuit, down_since, outages, reason, started_at, seen_at,
  coalesce(?1, {now}), lease_until
from {relay}
where seen_at > coalesce(?1, {now}) - ?2
order by route, owner, started_at, run
limit ?3
