-- Whether the session that holds the lane of `entry` has read it, and it is due. ?12 now or null
((entry.status = 'pending' or entry.status = 'retrying') and coalesce(entry.due_at <= coalesce(?12, {now}), 1) and exists (
  select 1 from {lane} as held
  cross join {lane_session} as reader on reader.route = held.route and reader.session = held.session
  where held.route = entry.route and held.lane = entry.lane and reader.handed >= entry.seq))
