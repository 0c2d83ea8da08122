-- Sagas that do not know how many of their entries are dead, and those whose time has come, in the order of their ids and
-- behind the one where the last sweep ended ($3): those that fail every time must not be all that is ever looked at.
-- The dead are read once: each saga that knows of some is looked up among them, not compared with all of them.
with dead as materialized (
    select o.group_id, count(*) as dead from {outbox} as o
    where o.status = 'dead' and o.group_id is not null
    group by o.group_id
), found as materialized (
    select d.group_id as id
    from dead as d
    join {saga} as s on s.id = d.group_id and s.dead <> d.dead
    union
    select s.id from {saga} as s where s.dead > 0 and s.id not in (select d.group_id from dead as d)
    union
    select s.id from {saga} as s where s.due_at <= coalesce($1, statement_timestamp())
)
select f.id from found as f where $3::text is null or f.id > $3 order by f.id
limit $2
