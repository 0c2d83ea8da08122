-- Sagas that do not know how many of their entries are dead, and those whose time has come, in the order of their ids and
-- behind the one where the last sweep ended: those that fail every time must not be all that is ever looked at.
-- ?1 now or null, ?2 limit, ?3 a saga or null
select saga.id
from (
  select group_id, count(*) as dead from {outbox} force index ({open_index})
  where part = 5 and group_id is not null
  group by group_id
) as found
straight_join {saga} as saga on saga.id = found.group_id and saga.dead <> found.dead
where ?3 is null or saga.id > ?3
union
select saga.id from {saga} as saga
where saga.dead > 0 and (?3 is null or saga.id > ?3) and saga.id not in (
  select entry.group_id from {outbox} as entry force index ({open_index})
  where entry.part = 5 and entry.group_id is not null)
union
select saga.id from {saga} as saga
where saga.due_at <= coalesce(?1, {now}) and (?3 is null or saga.id > ?3)
order by 1
limit ?2
