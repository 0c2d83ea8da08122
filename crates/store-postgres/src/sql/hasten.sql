-- Makes entries due that wait for their time.
{changing}    set due_at = null
    where (select count(*) from audited) > 0 and o.seq = any (array(select seq from picked))
    returning 1
)
select count(*) as changed from changed
