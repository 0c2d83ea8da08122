-- What a session has in flight at most.
update {lane_session} set isolated = $3 where route = $1 and session = $2 returning session
