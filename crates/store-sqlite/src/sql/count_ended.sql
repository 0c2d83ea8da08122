-- Entries at their end, per route and status, by their partial index alone.
select route, status, count(*) as entries
from {outbox}
where status in ('delivered', 'dead', 'discarded')
group by route, status
