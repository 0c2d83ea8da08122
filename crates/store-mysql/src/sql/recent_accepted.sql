-- Events that consumers accepted lately. ?1 now or null, ?2 how long ago in microseconds
select consumer, count(*) as events
from {inbox} force index ({inbox_age_index})
where accepted_at > coalesce(?1, {now}) - ?2
group by consumer
