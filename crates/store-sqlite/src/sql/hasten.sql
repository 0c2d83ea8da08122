-- Makes entries due that wait for their time. ?1 now or null, ?2 [seq, …]
update {outbox} set due_at = null
where status in ('pending', 'retrying') and seq in (select value from json_each(?2))
