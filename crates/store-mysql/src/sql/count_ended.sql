-- Entries at their end, per route and status, by their index alone.
select route, elt(part - 3, 'delivered', 'dead', 'discarded'), count(*) as entries
from {outbox} force index ({open_index})
where part > 3
group by part, route
