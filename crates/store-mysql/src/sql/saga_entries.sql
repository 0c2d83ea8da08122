-- The entries of a saga's steps that are still there, oldest first. ?1 [event id, …], ?2 saga
select {entry_columns} from (select * from {ids:1} as list) as step
straight_join {outbox} as entry force index ({event_index}) on entry.event_id = unhex(replace(step.id, '-', ''))
where entry.group_id = ?2
order by entry.seq{lock}
