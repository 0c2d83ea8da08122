-- The audit records of one saga, oldest first. ?1 saga
select seq, at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail
from {audit} where saga_id = ?1 order by seq
