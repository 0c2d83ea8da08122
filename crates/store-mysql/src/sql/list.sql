-- Entries that match, oldest first.
{matching}select {columns}, standing, (select dead.event_id from {outbox} as dead where dead.seq = blocked) as blocked_by
from matching
where ?1 is null or standing = ?1
order by seq
limit ?14
