-- What lanes have handed out and not settled, per route and status: nothing of that is stored in the entries. What
-- waits for its time, or behind a dead entry, is in nobody's hands. ?1 now
select entry.route, entry.status, count(*) as entries
from {lane_session} as reader
cross join {lane} as held on held.route = reader.route and held.session = reader.session
cross join {outbox} as entry on entry.route = held.route and entry.lane = held.lane and entry.seq <= reader.handed
where {unsettled} and (entry.due_at is null or entry.due_at <= ?1) and {blocked} is null
group by entry.route, entry.status
