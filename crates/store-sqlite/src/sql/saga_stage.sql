-- Stages a saga as the next generation of its subject, unless one of its id is there.
-- ?1 id, ?2 name, ?3 route, ?4 kind and ?5 value of the subject, ?6 status, ?7 body, ?8 timeout in microseconds or null,
-- ?9 the same if a sweep is to look at it then
insert into {saga} (id, name, route, subject_kind, subject_value, generation, status, body, created_at, updated_at,
  deadline_at, due_at)
select ?1, ?2, ?3, ?4, ?5,
  coalesce((select max(generation) from {saga} where name = ?2 and subject_kind = ?4 and subject_value = ?5), 0) + 1,
  ?6, ?7, {now}, {now}, {now} + ?8, {now} + ?9
where true
on conflict (id) do nothing
returning cast(generation as text)
