-- How long the newest deliveries of a route took, in microseconds: from the end of their part of the index.
-- ?1 now or null, ?2 how long ago in microseconds, ?3 number of the status, ?4 route, ?5 limit
select settled_at - created_at as wait
from {outbox} force index ({open_index})
where part = ?3 and route = ?4 and at > coalesce(?1, {now}) - ?2
order by at desc
limit ?5
