-- By their ids.
{heads_meant}, meant as materialized (
    select {narrow}
    from {outbox} as o
    where o.event_id = any ($11::uuid[])
    order by o.seq
)