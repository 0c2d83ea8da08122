-- The audit rows of what an operator changes. ?1 now or null, ?2 kind, ?3 actor, ?4 [seq, …]
insert into {audit} (at, kind, actor, route, event_id, saga_id, subject_kind, subject_value)
select coalesce(?1, {now}), ?2, ?3, entry.route, entry.event_id, saga.id, saga.subject_kind, saga.subject_value
from {seqs:4} as picked
straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq
left join {saga} as saga on saga.id = entry.group_id
order by entry.seq
