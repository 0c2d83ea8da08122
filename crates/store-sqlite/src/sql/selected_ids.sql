-- The entries that an operator named, and the saga of a step if that has not ended. ?1 [event id, …]
select seq, event_id, status,
  (select id from {saga} where id = group_id and ended_at is null and not {plain}) as saga
from {outbox} where event_id in (select value from json_each(?1))
