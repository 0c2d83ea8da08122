-- Tells the readers of lanes that an operator has changed one of their entries. ?1 [seq, …]
update {lane} set revision = revision + 1
where (route, lane) in (select route, lane from {outbox} where seq in (select value from json_each(?1)))
