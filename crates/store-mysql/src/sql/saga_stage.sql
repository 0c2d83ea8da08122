-- Stages a saga as the next generation of its subject. The id that the server tells is the generation. No row is added if a
-- saga of that id is there, or if another transaction has just staged that generation.
-- ?1 id, ?2 name, ?3 route, ?4 kind and ?5 value of the subject, ?6 status, ?7 body, ?8 timeout in microseconds or null,
-- ?9 whether a sweep is to look at it then
insert ignore into {saga} (id, name, route, subject_kind, subject_value, generation, status, `body`, created_at, updated_at,
  deadline_at, due_at)
select ?1, ?2, ?3, ?4, ?5, last_insert_id(coalesce(max(generation), 0) + 1), ?6, ?7, {now}, {now}, {now} + ?8,
  if(?9, {now} + ?8, null)
from {saga} where name = ?2 and subject_kind = ?4 and subject_value = ?5
