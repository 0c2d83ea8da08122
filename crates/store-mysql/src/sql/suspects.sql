-- Whether entries of a route came back from an expired lease and wait. ?1 route, ?2 whether steps of sagas are meant too
select 1 from {outbox} force index ({open_index})
where part = 2 and route = ?1 and at is null and status = 'retrying' and crashes > 0 and (?2 or {plain})
  and not exists (select 1 from {lane_session} where route = ?1)
  and not exists (select 1 from {route_state} where route = ?1 and paused_at is not null)
limit 1
