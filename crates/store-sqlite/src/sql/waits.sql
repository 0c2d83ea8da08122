-- How long the newest deliveries of a route took, in microseconds. The index is in the order of settling for all routes
-- together: so it is followed from its end, over at most ?5 places, and only rows of this route are read. Why the time
-- has two ends is said in `count_ended.sql`.
-- ?1 now or null, ?2 how long ago in microseconds, ?3 route, ?4 limit, ?5 most places of the index
select entry.settled_at - entry.created_at
from (
  select newest.seq
  from (
    select seq, route from {outbox}
    where {ended} and status = 'delivered' and settled_at between coalesce(?1, {now}) - ?2 and 9223372036854775807
    order by settled_at desc
    limit ?5) as newest
  where newest.route = ?3
  limit ?4) as own
cross join {outbox} as entry on entry.seq = own.seq
