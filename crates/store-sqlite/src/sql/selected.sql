-- The entries that an operator means to change.
{matching}select seq, event_id, route, status, standing, held, coalesce(due_at <= coalesce(?12, {now}), 1) as due
from matching
where ?1 is null or standing = ?1
order by seq
limit ?14
