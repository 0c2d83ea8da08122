-- The audit rows of what a reap buries. ?1 now or null, ?2 actor, ?3 [[seq, spent, error], …]
insert into {audit} (at, kind, actor, route, event_id, detail)
select coalesce(?1, {now}), 'dead', ?2, entry.route, entry.event_id, stale.value ->> 2
from json_each(?3) as stale cross join {outbox} as entry
where stale.value ->> 1 and entry.seq = stale.value ->> 0
