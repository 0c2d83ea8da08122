-- What is not settled and not above the cursors, by the index alone.
-- ?1 route, ?2 [[lane, cursor, wanted], …]
with position (lane, cursor) as materialized (
  select value ->> 0, value ->> 1 from json_each(?2))
select entry.seq
from position cross join {outbox} as entry
where entry.route = ?1 and entry.lane = position.lane and entry.seq <= position.cursor and {unsettled}
