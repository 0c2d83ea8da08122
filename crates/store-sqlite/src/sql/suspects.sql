-- The first entries that came back from an expired lease, and how often. ?1 route, ?2 attempts where the entry does not
-- say, ?3 limit, ?4 whether steps of sagas are meant too
select seq, crashes from {outbox}
where route = ?1 and due_at is null and {live} and (attempts > 0 or status = 'in_flight')
  and status = 'retrying' and crashes > 0 and {counted} < coalesce(max_attempts, ?2)
  and (?4 or {plain})
  and not exists (select 1 from {lane_session} where route = ?1)
  and not exists (select 1 from {route_state} where route = ?1 and paused_at is not null)
order by seq
limit ?3
