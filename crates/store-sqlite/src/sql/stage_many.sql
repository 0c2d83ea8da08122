-- Stages any number of events in one statement with three parameters, so that there is no ceiling on
-- parameters, nothing to prepare twice, and a call that is dropped half-way leaves all or nothing.
-- ?1 route, ?2 the events as a JSON array of arrays, ?3 all payloads in one blob, cut out by offset and length:
-- JSON cannot carry bytes.
insert into {outbox} (event_id, route, type, key, content_type, headers, tenant, correlation_id, causation_id,
  execution_id, occurred_at, priority, group_id, hlc, max_attempts, due_at, payload)
select value ->> 0, ?1, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
  value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, {now} + (value ->> 14),
  substr(?3, value ->> '$[15][0]', value ->> '$[15][1]')
from json_each(?2)
-- Without a where, "on conflict" would be read as the condition of a join.
where true
on conflict (event_id, route) do nothing
returning event_id
