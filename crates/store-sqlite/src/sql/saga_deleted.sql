-- Delivered entries of sagas that nobody keeps. ?1 [seq, …]
delete from {outbox} where seq in (select value from json_each(?1))
