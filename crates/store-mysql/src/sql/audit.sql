-- The newest audit records. ?1 limit
select seq, at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail
from {audit} order by seq desc limit ?1
