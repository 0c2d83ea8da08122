-- Stages any number of events in one statement with three parameters, so that there is no ceiling on
-- parameters, nothing to prepare twice, and a call that is dropped half-way leaves all or nothing.
-- ?1 route, ?2 the events as a JSON array of arrays, ?3 all payloads in one blob, cut out by offset and length:
-- JSON cannot carry bytes.
with event (fields) as materialized (select value from json_each(?2))
insert into {outbox} (event_id, route, type, key, content_type, headers, tenant, correlation_id, causation_id,
  execution_id, occurred_at, priority, group_id, hlc, max_attempts, due_at, payload_bytes, lane)
select fields ->> 0, ?1, fields ->> 1, fields ->> 2, fields ->> 3, fields ->> 4, fields ->> 5, fields ->> 6,
  fields ->> 7, fields ->> 8, fields ->> 9, fields ->> 10, fields ->> 11, fields ->> 12, fields ->> 13,
  {now} + (fields ->> 14), substr(?3, fields ->> '$[15][0]', fields ->> '$[15][1]'), fields ->> '$[15][2]'
-- json_each writes the text of an element anew for every mention; materialized, it is written once.
from event
-- Without a where, "on conflict" would be read as the condition of a join.
where true
on conflict (event_id, route) do nothing
