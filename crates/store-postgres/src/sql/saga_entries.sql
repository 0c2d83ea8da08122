-- The entries of a saga's steps that are still there, oldest first.
select {columns} from {outbox} where event_id = any ($1) and group_id = $2 order by seq
