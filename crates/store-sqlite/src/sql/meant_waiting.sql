-- What waits or is in flight, in the order of staging. Of each lane of each route the first entries are taken from its index,
-- so that a page costs as much whatever waits behind it. What was claimed as a row is in no lane, and there is little of it.
entry.seq in (
  with recursive
  open_route (route) as materialized (
    select iif(?3 is null, (select min(route) from {outbox} where {unsettled}), ?3)
    union all
    select (select min(route) from {outbox} where {unsettled} and route > open_route.route)
    from open_route where ?3 is null and open_route.route is not null)
  select page.seq
  from open_route
  cross join json_each(?13) as part
  cross join {outbox} as page on page.seq in (
    select entry.seq from {outbox} as entry
    where entry.route = open_route.route and entry.lane = part.value and {unsettled} and entry.seq > coalesce(?10, 0)
      -- A lane has handed out nothing beyond what its session has read.
      and entry.seq <= iif(?1 is not 'in_flight', 9223372036854775807, (
        select reader.handed from {lane} as held
        cross join {lane_session} as reader on reader.route = held.route and reader.session = held.session
        where held.route = open_route.route and held.lane = part.value))
      and {matching}
    order by entry.seq
    limit ?14)
  -- Nothing is blocked in a lane without a dead entry.
  where ?1 is not 'blocked' or exists (
    select 1 from {outbox} as dead
    where dead.status = 'dead' and dead.key is not null and dead.route = open_route.route and dead.lane = part.value
      and dead.route in (select route from {route_state} where on_dead = 'block'))
  union all
  -- Each in the order of its index, so that no other is taken.
  select seq from (
    select entry.seq from {outbox} as entry
    where entry.due_at is null and {live} and (attempts > 0 or status = 'in_flight') and entry.status = 'in_flight' and {matching}
    order by entry.route, entry.seq
    limit -1)
  union all
  select seq from (
    select entry.seq from {outbox} as entry
    where entry.due_at is not null and entry.status = 'in_flight' and {matching}
    order by entry.route, entry.due_at, entry.seq
    limit -1))
