-- Entries that match, oldest first. A filter that is null does not narrow.
-- ?1 status, ?2 route, ?3 type, ?4 key, ?5 limit
select {columns}
from {outbox}
where (?1 is null or status = ?1) and (?2 is null or route = ?2) and (?3 is null or type = ?3)
  and (?4 is null or key = ?4)
order by seq
limit ?5
