-- The audit rows of the deaths in a batch, before the status that they explain.
-- ?1 now or null, ?2 actor, ?3 [[seq, fence, verdict, wait, failure], …]
with verdict (seq, fence, name, failure) as materialized (
  select value ->> 0, value ->> 1, value ->> 2, value ->> 4 from json_each(?3))
insert into {audit} (at, kind, actor, route, event_id, detail)
select coalesce(?1, {now}), 'dead', ?2, entry.route, entry.event_id, coalesce(verdict.failure, '')
from verdict cross join {outbox} as entry
where verdict.name = 'dead' and entry.seq = verdict.seq and entry.fence = verdict.fence
  and entry.status = 'in_flight'
