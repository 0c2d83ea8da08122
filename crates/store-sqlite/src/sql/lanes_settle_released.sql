-- Says of entries that are given back why they wait, and changes nothing else. Runs under the write lock that
-- lanes_settleable.sql was read under. A probe that is in vain for the same reason writes nothing.
-- ?1 [[seq, failure], …]
with verdict (seq, failure) as materialized (select value ->> 0, value ->> 1 from json_each(?1))
update {outbox} as entry set last_error = verdict.failure
from verdict
where entry.seq = verdict.seq and entry.last_error is not verdict.failure
