-- The audit records of sagas, before anything that they explain.
-- ?1 now, ?2 actor, ?3 [[saga, kind, event id, step, detail, route, kind and value of the subject], …]
insert into {audit} (at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail)
select ?1, value ->> 1, ?2, value ->> 5, value ->> 2, value ->> 0, value ->> 6, value ->> 7, value ->> 3, value ->> 4
from json_each(?3)
order by key
