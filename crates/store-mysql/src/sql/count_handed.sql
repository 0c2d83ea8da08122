-- What lanes have handed out and not settled, per route and status: nothing of that is stored in the entries. What
-- waits for its time, or behind a dead entry, is in nobody's hands. ?1 now
with
{heads}
select entry.route, entry.status, count(*) as entries
from {lane_session} as reader
straight_join {lane} as held on held.route = reader.route and held.session = reader.session
straight_join {outbox} as entry force index ({lane_index})
  on entry.live_lane = held.lane and entry.route = held.route and entry.seq <= reader.handed
where (entry.due_at is null or entry.due_at <= ?1)
  and not exists (
    select 1 from heads as head where head.route = entry.route and head.`key` = entry.`key` and head.seq < entry.seq)
group by entry.route, entry.status
