-- What a reap of one route finds; changes nothing. Two arms, each by its own partial index: what is due by time,
-- and what is due at once but stuck.
-- ?1 now or null, ?2 route, ?3 limit, ?4 attempts where the entry does not say or null, ?5 the failure of a lost lease,
-- ?6 whether steps of sagas are reaped too
with
expired (seq) as materialized (
  select seq from {outbox}
  where route = ?2 and due_at is not null and due_at <= coalesce(?1, {now})
    and (status = 'in_flight' or attempts >= coalesce(max_attempts, ?4)) and (?6 or {plain})
  order by due_at, seq
  limit ?3),
stuck (seq) as materialized (
  select seq from {outbox}
  where route = ?2 and due_at is null and {live}
    and (attempts > 0 or status = 'in_flight')
    and (status = 'in_flight' or attempts >= coalesce(max_attempts, ?4)) and (?6 or {plain})
  order by seq
  limit ?3 - (select count(*) from expired))
select seq, event_id, route, type, attempts,
  status = 'in_flight' as leased,
  coalesce(attempts >= coalesce(max_attempts, ?4), 0) as spent,
  -- Spent without a lease: what its last attempt said is the reason, not a lease.
  coalesce(iif(status = 'in_flight', null, last_error), ?5) as error
from {outbox}
where seq in (select seq from expired union all select seq from stuck)
