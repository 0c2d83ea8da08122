-- The next rows of all routes, by the primary key. Without a filter: every page costs what it returns.
select seq, event_id, route::text, key::text, status::text, created_at
from {outbox}
where seq > $1
order by seq
limit $2
