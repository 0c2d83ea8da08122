-- The database's clock, in microseconds.
select {now}
