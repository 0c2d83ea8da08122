-- Sagas that do not know how many of their entries are dead, and those whose time has come.
-- The second part asks for each saga by itself: as a join it would compare all of them with all dead entries of sagas.
select d.group_id as id
from (
    select o.group_id, count(*) as dead from {outbox} as o
    where o.group_id is not null and o.status = 'dead'
    group by o.group_id
) as d
join {saga} as s on s.id = d.group_id and s.dead <> d.dead
union
select s.id from {saga} as s
where s.dead > 0 and (
    select o.group_id from {outbox} as o where o.group_id = s.id and o.status = 'dead' limit 1
) is null
union
select s.id from {saga} as s where s.due_at <= coalesce($1, statement_timestamp())
limit $2
