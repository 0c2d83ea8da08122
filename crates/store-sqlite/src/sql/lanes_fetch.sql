-- Entries that are not settled, by their rows. ?1 route, ?2 [seq, …]
select {columns} from {outbox}
where seq in (select value from json_each(?2)) and +route = ?1 and {unsettled}
