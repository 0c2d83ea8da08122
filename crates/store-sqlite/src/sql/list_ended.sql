-- Dead or discarded entries that match, oldest first. Written out for their own partial index: there are few of
-- them, and many delivered ones before them. ?1 status, ?2 route, ?3 type, ?4 key, ?5 limit
select {columns}
from {outbox}
where status = ?1 and {ended}
  and (?2 is null or route = ?2) and (?3 is null or type = ?3) and (?4 is null or key = ?4)
order by seq
limit ?5
