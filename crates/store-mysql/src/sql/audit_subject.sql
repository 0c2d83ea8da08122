-- The audit records of all sagas on one subject, oldest first. ?1 kind, ?2 value
select seq, at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail
from {audit} where subject_kind = ?1 and subject_value = ?2 order by seq
