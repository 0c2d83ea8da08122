-- Entries at their end, per route and status, by their index alone.
select route, elt(ended - 3, 'delivered', 'dead', 'discarded'), count(*) as entries
from {outbox} force index ({ended_index})
where ended is not null
group by route, ended
