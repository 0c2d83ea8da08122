-- The entries that an operator means to change, each with the saga that it is a step of, if that has not ended.
{matching}select seq, event_id, route, status, standing, held, coalesce(due_at <= coalesce(?12, {now}), 1) as due,
  (select id from {saga} where id = group_id and ended_at is null and not {plain}) as open_saga
from matching
where ?1 is null or standing = ?1
order by seq
limit ?14
