-- Of the oldest $2 entries, those that have one of the statuses. Nothing is known of what was staged later.
{heads_meant}, meant as materialized (
    select {narrow}
    from (
        select t.* from {outbox} as t where $10::bigint is null or t.seq > $10 order by t.seq limit $2::bigint
    ) as o
    where o.status = any ({wanted}) and {narrowed}
    order by o.seq
)