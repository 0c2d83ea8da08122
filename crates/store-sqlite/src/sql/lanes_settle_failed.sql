-- Records retries and deaths. Runs under the write lock that lanes_settleable.sql was read under, so nothing has to be
-- looked at again. ?1 now or null, ?2 [[seq, is a death, failure, attempts, wait in microseconds], …]
with
clock (now) as materialized (select coalesce(?1, {now})),
verdict (seq, death, failure, spent, wait) as materialized (
  select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 from json_each(?2))
update {outbox} as entry set
  status = iif(verdict.death, 'dead', 'retrying'),
  attempts = max(entry.attempts, verdict.spent),
  due_at = min((select now from clock) + verdict.wait, 253402300799999999),
  last_error = verdict.failure,
  last_attempt_at = (select now from clock),
  settled_at = iif(verdict.death, (select now from clock), null)
from verdict
where entry.seq = verdict.seq
