-- The audit rows of what an operator changes. ?1 now or null, ?2 kind, ?3 actor, ?4 [seq, …]
insert into {audit} (at, kind, actor, route, event_id, saga_id, subject_kind, subject_value)
select coalesce(?1, {now}), ?2, ?3, entry.route, entry.event_id, saga.id, saga.subject_kind, saga.subject_value
from {outbox} as entry
left join {saga} as saga on saga.id = entry.group_id
where entry.seq in (select value from json_each(?4))
order by entry.seq
