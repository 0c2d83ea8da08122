-- Who holds a lane, and how far that session has read.
readers as (
  select held.route, held.lane, reader.handed
  from {lane_session} as reader
  join {lane} as held on held.route = reader.route and held.session = reader.session)