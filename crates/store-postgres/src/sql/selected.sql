-- The entries that an operator means to change.
{matching}select seq, event_id, route::text, status::text, standing, held,
    coalesce(due_at <= coalesce($15, statement_timestamp()), true) as due
from matching
where $1::text is null or standing = $1
order by seq
limit $17
