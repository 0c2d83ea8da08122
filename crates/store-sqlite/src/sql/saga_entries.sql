-- The entries of a saga's steps that are still there, oldest first. ?1 [event id, …], ?2 saga
select {columns} from {outbox}
where event_id in (select value from json_each(?1)) and group_id = ?2
order by seq
