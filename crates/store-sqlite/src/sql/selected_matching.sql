-- The dead entries that an operator described, and the saga of a step if that has not ended. A filter that is null does not narrow. ?1 route, ?2 type, ?3 key
select seq, event_id, status,
  (select id from {saga} where id = group_id and ended_at is null and not {plain}) as saga
from {outbox}
where status = 'dead' and {ended}
  and (?1 is null or route = ?1) and (?2 is null or type = ?2) and (?3 is null or key = ?3)
