-- Gives up for good what is dead, or waits and is cancelled.
{changing}    set status = 'discarded', due_at = null, settled_at = coalesce($4, statement_timestamp())
    where (select count(*) from audited) > 0 and o.seq = any (array(select seq from picked))
    returning 1
)
-- The number, and the first audit records; no row, if nothing was changed.
select (select count(*) from changed) as changed, a.*
from (select * from audited order by seq limit $7) as a
