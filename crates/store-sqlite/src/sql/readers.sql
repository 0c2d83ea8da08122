-- Who holds a lane, and how far that session has read.
readers (route, lane, handed) as materialized (
  select held.route, held.lane, reader.handed
  from {lane_session} as reader
  cross join {lane} as held on held.route = reader.route and held.session = reader.session)