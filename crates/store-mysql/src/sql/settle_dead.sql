-- The audit rows of the deaths in a batch, before the status that they explain.
-- ?1 now or null, ?2 actor, ?3 [[seq, fence, verdict, wait, failure], …]
insert into {audit} (at, kind, actor, route, event_id, detail)
select coalesce(?1, {now}), 'dead', ?2, entry.route, entry.event_id, coalesce(verdict.failure, '')
from {verdicts:3} as verdict
straight_join {outbox} as entry force index (primary) on entry.seq = verdict.seq and entry.fence = verdict.fence
where verdict.name = 'dead' and entry.status = 'in_flight'
