-- Entries that are due at once, per route and status, by their index alone. `first` is the oldest of them.
select route, status, count(*) as entries, min(seq) as first
from {outbox} force index ({open_index})
where part in (1, 2) and at is null
group by route, status
