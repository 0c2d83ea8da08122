-- Sagas that do not know how many of their entries are dead, and those whose time has come, in the order of their ids and
-- behind the one where the last sweep ended: those that fail every time must not be all that is ever looked at.
-- ?1 now or null, ?2 limit, ?3 a saga or null
-- The likelihood keeps the planner from reading all dead entries, of which those of sagas are a few.
select saga.id
from (
  select group_id, count(*) as dead from {outbox}
  where group_id is not null and likelihood(status = 'dead', 0.99)
  group by group_id
) as found
join {saga} as saga on saga.id = found.group_id and saga.dead <> found.dead
where ?3 is null or saga.id > ?3
union
select saga.id from {saga} as saga
where saga.dead > 0 and (?3 is null or saga.id > ?3) and not exists (
  select 1 from {outbox} as entry
  where entry.group_id = saga.id and entry.group_id is not null and entry.status = 'dead')
union
select saga.id from {saga} as saga
where saga.due_at is not null and saga.due_at <= coalesce(?1, {now}) and (?3 is null or saga.id > ?3)
order by 1
limit ?2
