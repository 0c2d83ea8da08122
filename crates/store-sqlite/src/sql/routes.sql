-- The routes that have something due by time or stuck, by hopping from one to the next in the index: the
-- cost grows with the routes, not with the entries.
with recursive
timed (route) as (
  select min(route) from {outbox} where due_at is not null
  union all
  select (select min(route) from {outbox} where due_at is not null and route > timed.route)
  from timed where timed.route is not null),
stuck (route) as (
  select min(route) from {outbox}
  where due_at is null and {live} and (attempts > 0 or status = 'in_flight')
  union all
  select (
    select min(route) from {outbox}
    where due_at is null and {live}
      and (attempts > 0 or status = 'in_flight') and route > stuck.route)
  from stuck where stuck.route is not null)
select route from timed where route is not null union select route from stuck where route is not null
