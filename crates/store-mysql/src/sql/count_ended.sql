-- How many entries of a route ended with a status, up to a number, by their index alone. ?1 number of the status, ?2 route,
-- ?3 the number
select max(route) as route, elt(max(part) - 3, 'delivered', 'dead', 'discarded'), count(*) as entries
from (
    select route, part from {outbox} force index ({open_index})
    where part = ?1 and route = ?2
    limit ?3
) as ended
having count(*) > 0
