-- Entries that are not settled, by their rows: whatever the statistics say, no index of all that waits is read through.
-- ?1 route, ?2 [seq, …]
select {columns} from {outbox} not indexed
where seq in (select value from json_each(?2)) and +route = ?1 and {unsettled}
