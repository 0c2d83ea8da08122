-- Takes the write lock and writes nothing: SQLite lets one writer in at a time, so there is no lock per key.
delete from {outbox} where false
