-- Entries at their end, per route and status, by their partial index alone.
select route, status, count(*) as entries
from {outbox}
where {ended}
group by route, status
