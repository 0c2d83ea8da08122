-- The entries that an operator means to change, each with the saga that it is a step of, if that has not ended.
select seq, event_id, route, status, {standing} as standing,
  (status = 'pending' or status = 'retrying') and exists (
    select 1 from {lane} as held
    cross join {lane_session} as reader on reader.route = held.route and reader.session = held.session
    where held.route = entry.route and held.lane = entry.lane) as held,
  coalesce(due_at <= coalesce(?12, {now}), 1) as due,
  (select id from {saga} where id = group_id and ended_at is null and not {plain}) as open_saga
from {outbox} as entry
where {scope}
order by seq
limit ?14
