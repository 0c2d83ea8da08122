-- The audit records of an event, oldest first. ?1 event id
select seq, at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail
from {audit} where event_id = ?1 order by seq
