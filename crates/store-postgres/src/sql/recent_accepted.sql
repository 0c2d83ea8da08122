-- Events that consumers accepted lately. $1 now or null, $2 how long ago in microseconds
select consumer, count(*) as events
from {inbox}
where accepted_at > coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
group by consumer
