-- Sagas that do not know how many of their entries are dead, and those whose time has come.
-- The dead are read once: each saga that knows of some is looked up among them, not compared with all of them.
with dead as materialized (
    select o.group_id, count(*) as dead from {outbox} as o
    where o.status = 'dead' and o.group_id is not null
    group by o.group_id
)
select d.group_id as id
from dead as d
join {saga} as s on s.id = d.group_id and s.dead <> d.dead
union
select s.id from {saga} as s where s.dead > 0 and s.id not in (select d.group_id from dead as d)
union
select s.id from {saga} as s where s.due_at <= coalesce($1, statement_timestamp())
limit $2
