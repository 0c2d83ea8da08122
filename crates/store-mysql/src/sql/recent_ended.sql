-- How many entries of a route and a status ended lately, by their index alone. Without a group nothing is sorted.
-- ?1 now or null, ?2 how long ago in microseconds, ?3 number of the status, ?4 route
select max(route) as route, elt(max(part) - 3, 'delivered', 'dead', 'discarded'), count(*) as entries
from {outbox} force index ({open_index})
where part = ?3 and route = ?4 and at > coalesce(?1, {now}) - ?2
having count(*) > 0
