-- Entries that are due at a time, per route and status, by their index alone; and since when the longest waiting one is
-- due. ?1 now
select route, status, count(*) as entries, min(if(due_at <= ?1, due_at, null)) as due
from {outbox} force index ({open_index})
where live is not null and due_at is not null
group by route, status
