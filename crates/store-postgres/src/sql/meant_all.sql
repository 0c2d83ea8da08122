-- All that have one of the statuses, by the index that has the fewest others.
{dead}, meant as (
    select {narrow}
    from {outbox} as o
    where o.status = any ({wanted}) and {narrowed}
)