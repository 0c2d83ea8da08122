-- The entries of a saga's steps that are still there, oldest first. Ordered after they were found: a relay that may not
-- sort would read the whole table in this order.
with found as materialized (
    select {columns} from {outbox} where event_id = any ($1) and group_id = $2
)
select * from found order by seq
