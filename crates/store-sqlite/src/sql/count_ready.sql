-- Entries that are due at once, per route and status, by their partial index alone. `first` is the oldest of them.
select route, status, count(*) as entries, min(seq) as first
from {outbox}
where due_at is null and {live}
group by route, status
