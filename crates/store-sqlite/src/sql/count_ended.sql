-- Entries at their end, per route and status, by their partial index alone. With both ends of the time SQLite reads one
-- status from its end; without them it may go by the list of statuses that the index asks for, and sort. ?1 how many of
-- the delivered and of the discarded are counted, the newest first
select route, 'dead' as status, count(*) as entries
from {outbox}
where {ended} and status = 'dead'
group by route
union all
select route, 'delivered', count(*)
from (
  select route from {outbox}
  where {ended} and status = 'delivered' and settled_at between 0 and 9223372036854775807
  order by settled_at desc
  limit ?1)
group by route
union all
select route, 'discarded', count(*)
from (
  select route from {outbox}
  where {ended} and status = 'discarded' and settled_at between 0 and 9223372036854775807
  order by settled_at desc
  limit ?1)
group by route
