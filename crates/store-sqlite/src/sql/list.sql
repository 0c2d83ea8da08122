-- Entries that match, oldest first.
select {columns}, {standing} as standing,
  (select head.event_id from {outbox} as head where head.seq = {blocked}) as blocked_by
from {outbox} as entry
where {scope}
order by seq
limit ?14
