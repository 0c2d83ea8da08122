-- Gives up for good what is dead, or waits and is cancelled.
{changing}    set status = 'discarded', due_at = null, settled_at = coalesce($4, statement_timestamp())
    where (select count(*) from audited) > 0 and o.seq = any (array(select seq from picked))
    returning 1
)
select count(*) as changed from changed
