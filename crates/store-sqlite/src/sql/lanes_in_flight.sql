-- What a session has read and not settled: what it may have been delivering. A suspect is in flight only if the session said
-- so: otherwise it waits, and so does what is behind it.
-- ?1 now, ?2 route, ?3 session, ?4 attempts where the entry does not say
select entry.seq, entry.event_id, entry.type, entry.key, entry.lane, entry.attempts + 1,
  entry.attempts + 1 - min(entry.crashes + 1, {in_company}) >= coalesce(entry.max_attempts, ?4) as spent,
  coalesce(entry.due_at <= ?1, reader.isolated is not null or entry.status <> 'retrying' or entry.crashes = 0) as due
from {lane_session} as reader
cross join {lane} as held on held.route = reader.route and held.session = reader.session
cross join {outbox} as entry on entry.route = held.route and entry.lane = held.lane and entry.seq <= reader.handed
where reader.route = ?2 and reader.session = ?3 and {unsettled}
  and (reader.isolated is null or entry.seq in (select value from json_each(reader.isolated)))
