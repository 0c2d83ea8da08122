-- One event on every route that carries it.
select {columns}
from {outbox}
where event_id = $1
order by seq
