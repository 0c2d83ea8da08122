-- The next entries of lanes, each up to its own number. By hopping along the index: SQLite has no limit per lane.
-- ?1 route, ?2 [[lane, cursor, wanted], …]
with recursive
position (lane, cursor, wanted) as materialized (
  select value ->> 0, value ->> 1, value ->> 2 from json_each(?2)),
next (lane, seq, wanted) as (
  select lane, (
      select min(entry.seq) from {outbox} as entry
      where entry.route = ?1 and entry.lane = position.lane and entry.seq > position.cursor and {unsettled}),
    wanted
  from position
  where wanted > 0
  union all
  select lane, (
      select min(entry.seq) from {outbox} as entry
      where entry.route = ?1 and entry.lane = next.lane and entry.seq > next.seq and {unsettled}),
    wanted - 1
  from next
  where wanted > 1 and seq is not null)
select {columns} from {outbox} where seq in (select seq from next)
