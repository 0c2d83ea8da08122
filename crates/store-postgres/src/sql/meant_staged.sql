-- In the order of staging. The status says it all, so the limit is put on the rows themselves.
{heads_meant}, meant as materialized (
    select {narrow}
    from {outbox} as o
    where o.status = any ({wanted}) and {narrowed}
    order by o.seq
    limit $16::bigint
)