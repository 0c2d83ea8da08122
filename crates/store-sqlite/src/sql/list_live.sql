-- Entries of a status that is not terminal, oldest first. Written out for the two partial indexes of live entries:
-- many delivered ones may come before them. ?1 status, ?2 route, ?3 type, ?4 key, ?5 limit
select {columns}
from {outbox}
where seq in (
    select seq from {outbox}
    where due_at is null and {live} and status = ?1
    union all
    select seq from {outbox} where due_at is not null and status = ?1)
  and (?2 is null or route = ?2) and (?3 is null or type = ?3) and (?4 is null or key = ?4)
order by seq
limit ?5
