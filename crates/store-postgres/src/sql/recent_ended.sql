-- Entries that ended lately, per route and status. $1 now or null, $2 how long ago in microseconds
select route, status::text, count(*) as entries
from {outbox}
where status in ('delivered', 'dead', 'discarded')
    and settled_at > coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
group by route, status
