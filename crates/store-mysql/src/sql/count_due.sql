-- Entries that are due at a time, per route and status, by their index alone; and since when the longest waiting one is
-- due. ?1 now
select route, status, count(*) as entries, min(if(at <= ?1, at, null)) as due
from {outbox} force index ({open_index})
where part = 1 and at is not null
group by route, status
