-- Puts dead entries back with a fresh budget.
{changing}    set status = 'pending', attempts = 0, crashes = 0, due_at = null, settled_at = null, owner = null
    where (select count(*) from audited) > 0 and o.seq = any (array(select seq from picked))
    returning 1
)
-- The number, and the first audit records; no row, if nothing was changed.
select (select count(*) from changed) as changed, a.*
from (select * from audited order by seq limit $7) as a
