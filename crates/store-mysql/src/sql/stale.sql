-- What a reap of one route finds. Each arm by its own part of the index: what is due by time, what is due at once but stuck,
-- and if asked (?6) what was leased before the clock was set back. Each up to the limit.
-- ?1 now or null, ?2 route, ?3 limit, ?4 attempts where the entry does not say or null, ?5 the failure of a lost lease,
-- ?7 whether steps of sagas are reaped too
(select seq, event_id, route, type, attempts,
  status = 'in_flight' as leased,
  -- With the lease that is over now, if it had one.
  coalesce(attempts - least(crashes + (status = 'in_flight'), {in_company}) >= coalesce(max_attempts, ?4), 0) as spent,
  -- Spent without a lease: what its last attempt said is the reason, not a lease.
  coalesce(if(status = 'in_flight', null, last_error), ?5) as error
from {outbox} force index ({open_index})
where part = 1 and route = ?2 and at <= coalesce(?1, {now})
  and (status = 'in_flight' or {counted} >= coalesce(max_attempts, ?4)) and (?7 or {plain})
order by at, priority, seq
limit ?3{lock})
union all
(select seq, event_id, route, type, attempts,
  status = 'in_flight' as leased,
  -- With the lease that is over now, if it had one.
  coalesce(attempts - least(crashes + (status = 'in_flight'), {in_company}) >= coalesce(max_attempts, ?4), 0) as spent,
  -- Spent without a lease: what its last attempt said is the reason, not a lease.
  coalesce(if(status = 'in_flight', null, last_error), ?5) as error
from {outbox} force index ({open_index})
where ?6 and part = 1 and route = ?2 and at > coalesce(?1, {now}) and status = 'in_flight'
  and leased_at - coalesce(?1, {now}) > due_at - leased_at and (?7 or {plain})
order by at, priority, seq
limit ?3{lock})
union all
(select seq, event_id, route, type, attempts,
  status = 'in_flight' as leased,
  -- With the lease that is over now, if it had one.
  coalesce(attempts - least(crashes + (status = 'in_flight'), {in_company}) >= coalesce(max_attempts, ?4), 0) as spent,
  -- Spent without a lease: what its last attempt said is the reason, not a lease.
  coalesce(if(status = 'in_flight', null, last_error), ?5) as error
from {outbox} force index ({open_index})
where part = 2 and route = ?2 and at is null
  and (status = 'in_flight' or {counted} >= coalesce(max_attempts, ?4)) and (?7 or {plain})
order by priority, seq
limit ?3{lock})
