-- What a reap of one route finds; changes nothing. Each arm by its own partial index: what is due by time, what is due at
-- once but stuck, and if asked (?6) what was leased before the clock was set back.
-- ?1 now or null, ?2 route, ?3 limit, ?4 attempts where the entry does not say or null, ?5 the failure of a lost lease,
-- ?7 whether steps of sagas are reaped too
with
clock (now) as materialized (select coalesce(?1, {now})),
expired (seq) as materialized (
  select seq from {outbox}
  where route = ?2 and due_at is not null and due_at <= (select now from clock)
    and (status = 'in_flight' or {counted} >= coalesce(max_attempts, ?4)) and (?7 or {plain})
  order by due_at, seq
  limit ?3),
impossible (seq) as materialized (
  select seq from {outbox}
  where ?6 and route = ?2 and due_at is not null and due_at > (select now from clock) and status = 'in_flight'
    and leased_at - (select now from clock) > due_at - leased_at and (?7 or {plain})
  order by due_at, seq
  limit ?3 - (select count(*) from expired)),
stuck (seq) as materialized (
  select seq from {outbox}
  where route = ?2 and due_at is null and {live}
    and (attempts > 0 or status = 'in_flight')
    and (status = 'in_flight' or {counted} >= coalesce(max_attempts, ?4)) and (?7 or {plain})
  order by seq
  limit ?3 - (select count(*) from expired) - (select count(*) from impossible))
select seq, event_id, route, type, attempts,
  status = 'in_flight' as leased,
  -- With the lease that is over now, if it had one.
  coalesce(attempts - min(crashes + (status = 'in_flight'), {in_company}) >= coalesce(max_attempts, ?4), 0) as spent,
  -- Spent without a lease: what its last attempt said is the reason, not a lease.
  coalesce(iif(status = 'in_flight', null, last_error), ?5) as error
from {outbox}
where seq in (select seq from expired union all select seq from impossible union all select seq from stuck)
