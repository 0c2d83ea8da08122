-- The verdicts that count: the session holds the entry's lane under that fence, and the entry is not settled. A retry
-- leaves it so: a second one, or one of before a requeue, is told by its attempts. ?1 route, ?2 session, ?3 [[seq, fence, attempts of a retry or null], …]
with verdict (seq, fence, attempts) as materialized (
  select value ->> 0, value ->> 1, value ->> 2 from json_each(?3))
select verdict.seq, verdict.fence
from verdict cross join {outbox} as entry not indexed
where entry.seq = verdict.seq and +entry.route = ?1 and {unsettled}
  and coalesce(entry.attempts + 1 = verdict.attempts, 1)
  and exists (
    select 1 from {lane} as held
    where held.route = ?1 and held.lane = entry.lane and held.session = ?2 and held.fence = verdict.fence)
