-- The entries that an operator named. ?1 [event id, …]
select seq, event_id, status from {outbox} where event_id in (select value from json_each(?1))
