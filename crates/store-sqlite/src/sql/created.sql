-- When these entries were staged. ?1 [seq, …]
select seq, created_at from {outbox} where seq in (select value from json_each(?1))
