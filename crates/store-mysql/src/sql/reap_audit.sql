-- The audit rows of what a reap buries. ?1 now or null, ?2 actor, ?3 [[seq, spent, error], …]
insert into {audit} (at, kind, actor, route, event_id, detail)
select coalesce(?1, {now}), 'dead', ?2, entry.route, entry.event_id, stale.error
from {stale:3} as stale straight_join {outbox} as entry force index (primary) on entry.seq = stale.seq
where stale.spent
