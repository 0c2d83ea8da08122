-- Entries that ended lately, per route and status, by their partial index alone. ?1 now or null, ?2 how long ago in
-- microseconds
select route, status, count(*) as entries
from {outbox}
where status in ('delivered', 'dead', 'discarded') and {ended} and settled_at > coalesce(?1, {now}) - ?2
group by route, status
