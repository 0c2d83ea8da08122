-- The audit rows that a change has just written: nobody else writes meanwhile. ?1 the row before them, ?2 how many to tell
select seq, at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail
from {audit} where seq > ?1 order by seq limit ?2
