-- Entries that match, oldest first. What is shown of them is read when the page is known.
{matching}select {columns}, p.standing, (select d.event_id from {outbox} as d where d.seq = p.blocked) as blocked_by
from (
    select m.seq as place, m.standing, m.blocked
    from matching as m
    where $1::text is null or m.standing = $1
    order by m.seq
    limit $16
) as p
cross join lateral (select o.* from {outbox} as o where o.seq = p.place offset 0) as o
order by p.place
