-- Stages any number of events in one statement with three parameters, so that there is no ceiling on
-- parameters, nothing to prepare twice, and a call that is dropped half-way leaves all or nothing.
-- ?1 route, ?2 the events as a JSON array of arrays, ?3 all payloads in one blob, cut out by offset and length:
-- JSON cannot carry bytes. All three are bytes: a connection of the application may have any character set. In modes of
-- MariaDB a text without characters is null, or what `substr` makes of none: `repeat` says it in every mode.
insert ignore into {outbox} (event_id, route, type, `key`, content_type, headers, tenant, correlation_id, causation_id,
  execution_id, occurred_at, priority, group_id, hlc, max_attempts, due_at, payload_bytes)
select unhex(replace(event.id, '-', repeat('-', 0))), ?1, event.type, event.named, event.content_type, event.headers, event.tenant,
  event.correlation_id, event.causation_id, event.execution_id, event.occurred_at, event.priority, event.group_id, event.hlc,
  event.max_attempts, {now} + event.delay, coalesce(substr(?3, event.begins, event.bytes), repeat('-', 0))
from json_table(convert(?2 using utf8mb4), '$[*]' columns (
  id varchar(36) {text} path '$[0]', type longtext {text} path '$[1]', named longtext {text} path '$[2]', content_type longtext {text} path '$[3]',
  headers longtext {text} path '$[4]', tenant longtext {text} path '$[5]', correlation_id longtext {text} path '$[6]',
  causation_id longtext {text} path '$[7]', execution_id longtext {text} path '$[8]', occurred_at bigint path '$[9]',
  priority smallint path '$[10]', group_id longtext {text} path '$[11]', hlc bigint path '$[12]', max_attempts int path '$[13]',
  delay bigint path '$[14]', begins bigint path '$[15][0]', bytes bigint path '$[15][1]')) as event
