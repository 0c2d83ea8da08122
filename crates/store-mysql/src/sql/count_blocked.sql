-- What waits behind dead entries, per route and status; and whom the most wait for (?1 of each route), as rows without a
-- status. Only the lanes of the dead are looked at, and these behind the first of them.
with
{heads},
part as (select route, lane, min(seq) as seq from heads group by route, lane),
behind as (
  select entry.route, entry.status, head.seq as head, count(*) as entries
  from part
  straight_join {outbox} as entry force index ({lane_index})
    on entry.live_lane = part.lane and entry.route = part.route and entry.seq > part.seq
  join heads as head on head.route = entry.route and head.`key` = entry.`key` and head.seq < entry.seq
  group by entry.route, entry.status, head.seq),
summed as (select route, head, cast(sum(entries) as signed) as entries from behind group by route, head),
ranked as (
  select route, head, entries, row_number() over (partition by route order by entries desc, head) as place from summed)
select route, status, cast(sum(entries) as signed) as entries, null as event_id, null as `key`
from behind group by route, status
union all
select ranked.route, null, ranked.entries, dead.event_id, dead.`key`
from ranked join {outbox} as dead on dead.seq = ranked.head
where ranked.place <= ?1
order by entries desc
