-- Entries that match, oldest first.
{matching}select {columns}, standing, (select d.event_id from {outbox} as d where d.seq = m.blocked) as blocked_by
from matching as m
where $1::text is null or standing = $1
order by seq
limit $17
