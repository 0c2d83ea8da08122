-- How long the newest deliveries of a route took, in microseconds. The index is in the order of settling for all routes
-- together: so it is followed from its end until there are enough of this one, over at most $5 entries.
-- $1 now or null, $2 how long ago in microseconds, $3 route, $4 limit, $5 most entries of all routes
select (extract(epoch from newest.settled_at - newest.created_at) * 1000000)::bigint as wait
from (
    select route, created_at, settled_at
    from {outbox}
    where status = 'delivered' and settled_at > coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
    order by settled_at desc
    limit $5
) as newest
where newest.route = $3
limit $4
