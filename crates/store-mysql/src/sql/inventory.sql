-- The next rows of all routes, by the primary key. ?1 after this seq, ?2 limit
select seq, event_id, route, `key`, status, created_at
from {outbox}
where seq > ?1
order by seq
limit ?2
