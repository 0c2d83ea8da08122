-- Puts dead entries back with a fresh budget.
{changing}    set status = 'pending', attempts = 0, crashes = 0, due_at = null, settled_at = null, owner = null
    where (select count(*) from audited) > 0 and o.seq = any (array(select seq from picked))
    returning 1
)
select count(*) as changed from changed
