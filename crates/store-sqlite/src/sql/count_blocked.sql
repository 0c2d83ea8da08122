-- What waits behind dead entries, per route and status; and whom the most wait for (?1 of each route), as rows without a
-- status. Only the lanes of the dead are looked at, and these behind the first of them.
with
{heads},
behind (route, status, head, entries) as materialized (
  select entry.route, entry.status, head.seq, count(*)
  from (select route, lane, min(seq) as seq from heads group by route, lane) as part
  cross join {outbox} as entry on entry.route = part.route and entry.lane = part.lane and entry.seq > part.seq
  join heads as head on head.route = entry.route and head.lane = entry.lane and head.key = entry.key and head.seq < entry.seq
  where {unsettled}
  group by entry.route, entry.status, head.seq),
ranked (route, head, entries, place) as (
  select route, head, sum(entries), row_number() over (partition by route order by sum(entries) desc, head)
  from behind
  group by route, head)
select route, status, sum(entries), null, null from behind group by route, status
union all
select ranked.route, null, ranked.entries, dead.event_id, dead.key
from ranked cross join {outbox} as dead on dead.seq = ranked.head
where ranked.place <= ?1
order by 3 desc
