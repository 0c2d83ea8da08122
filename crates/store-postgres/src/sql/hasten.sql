-- Makes entries due that wait for their time.
{changing}    set due_at = null
    where (select count(*) from audited) > 0 and o.seq = any (array(select seq from picked))
    returning 1
)
-- The number, and the first audit records; no row, if nothing was changed.
select (select count(*) from changed) as changed, a.*
from (select * from audited order by seq limit $7) as a
