-- The entries that an operator means to change, each with the saga that it is a step of, if that has not ended.
{matching}select seq, event_id, route::text, status::text, standing, held, due,
    case when not plain then (select s.id from {saga} as s where s.id = group_id and s.ended_at is null) end as open_saga
from matching
where $1::text is null or standing = $1
order by seq
limit $16
