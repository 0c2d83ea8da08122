-- Version 1. Needs MariaDB 10.6 or MySQL 8.4, or later.
--
-- Every statement may be run again: a migration that broke off goes on where it ended. The row in {versions} is written
-- last, and without it the tables count as not made.
create table if not exists {versions} (
  version int not null primary key,
  applied_at bigint not null default {now}
) {table};

-- Plain SQL is a public way to stage: only route, type and payload (or payload_bytes) have no default. Times are whole
-- microseconds since 1970, UTC. Names are bytes, of UTF-8, so that neither case nor a trailing space is lost, whatever
-- the collation of a connection is. The checks repeat what the library checks, for writers that do not use it. They hold
-- in every SQL mode, and names have room for one byte too many, so that none is cut to fit. They count bytes: bytes that are no
-- UTF-8 must not make a later change of the row fail. A name of more than 255 characters is found when the row is read.
create table if not exists {outbox} (
  seq bigint not null auto_increment primary key,
  event_id binary(16) not null default (unhex(replace(uuid(), '-', '')))
    -- Bytes, as of `unhex(replace(…, '-', ''))`. A text of 36 characters would be cut to 16 where the mode is not strict.
    check (substr(event_id, 9, 1) <> '-' or substr(event_id, 14, 1) <> '-'),
  route varbinary(1021) not null check (length(route) between 1 and 1020),
  type varbinary(1021) not null check (length(type) between 1 and 1020),
  `key` varbinary(1021) check (length(`key`) between 1 and 1020),
  payload longtext,
  payload_bytes longblob,
  content_type varbinary(1021) not null default 'application/json'
    check (length(content_type) between 1 and 1020),
  headers longtext not null default ('{}')
    check (headers = '{}' or json_valid(headers) and json_type(headers) = 'OBJECT'),
  tenant varbinary(1021) check (length(tenant) between 1 and 1020),
  correlation_id varbinary(1021) check (length(correlation_id) between 1 and 1020),
  causation_id varbinary(1021) check (length(causation_id) between 1 and 1020),
  execution_id varbinary(1021) check (length(execution_id) between 1 and 1020),
  occurred_at bigint check (occurred_at between 0 and 253402300799999999),
  priority smallint not null default 100,
  group_id varbinary(1021) check (length(group_id) between 1 and 1020),
  hlc bigint check (hlc >= 0),
  -- The order says it all in one comparison: up to 3 the entry is alive, up to 2 it waits for a relay.
  status enum('pending', 'retrying', 'in_flight', 'delivered', 'dead', 'discarded') not null default 'pending'
    check (status + 0 > 0),
  attempts int not null default 0 check (attempts >= 0),
  -- How many of them ended because the lease expired.
  crashes int not null default 0 check (crashes >= 0),
  max_attempts int check (max_attempts between 1 and 1000000),
  due_at bigint,
  -- When the lease was taken or last prolonged: one that begins later than it is long was made before the clock was set back.
  leased_at bigint,
  fence bigint not null default 0,
  owner varchar(255),
  last_error text,
  last_attempt_at bigint,
  created_at bigint not null default {now},
  settled_at bigint,
  -- Room for what the first claim or settle writes, which gives it back. Pages are filled by staging: a row that grew would
  -- make the server rearrange its page, for nearly every entry.
  room varbinary(64) not null default '................................................................',
  -- Where the entries of one key meet, for ever; 64 for steps of sagas, which no relay by lanes reads.
  lane smallint generated always as (
    if(group_id is not null and content_type = 'application/vnd.pillarbox.step+json', 64,
      crc32(coalesce(`key`, event_id)) & 63)) stored,
  -- There are no partial indexes. Two columns stand for them: each begins an index, so that settled rows are not among
  -- those that a relay goes through.
  -- The part of the open index: 1 the queue; 2 what is looked for among entries that are due at once, because it was in flight
  -- before or still is; and the ends: 4 delivered, 5 dead, 6 discarded. All that retries is in part 2, or in part 1 with a time.
  part tinyint generated always as (
    case when status + 0 > 3 then status + 0 when due_at is null and (attempts > 0 or status + 0 > 1) then 2 else 1 end) stored,
  -- The time within the part: when the entry is due, or was settled.
  at bigint generated always as (if(status + 0 > 3, settled_at, due_at)) stored,
  -- The lane of an entry that waits, so that its index has all of them in the order of staging. Relays by lanes read 0 to 63. A
  -- row that was claimed is not theirs until it is reaped.
  live_lane smallint generated always as (if(status + 0 <= 2, lane, null)) stored,
  -- The order of causal claims: those without a stamp last.
  hlc_order bigint generated always as (coalesce(hlc, 9223372036854775807)) stored,
  check ((payload is null) <> (payload_bytes is null)),
  check (due_at is null or status + 0 <= 3),
  -- The id comes first: operators ask for an event without naming a route.
  unique key {event_index} (event_id, route)
) {table};

create table if not exists {audit} (
  seq bigint not null auto_increment primary key,
  at bigint not null default {now},
  kind varchar(255) not null,
  actor varchar(255) not null,
  route varbinary(1020),
  event_id binary(16),
  saga_id varbinary(64),
  subject_kind varbinary(1020),
  subject_value varbinary(1020),
  step varchar(255),
  detail longtext not null default ('')
) {table};

-- Sagas: one row each, their steps are entries whose group_id is the id. `dead` counts entries that the saga knows to
-- be dead, so that a sweep finds those that it does not know of; `due_at` is when a sweep is to look at it.
create table if not exists {saga} (
  id varbinary(64) not null primary key,
  name varbinary(1020) not null check (length(name) between 1 and 1020),
  route varbinary(1020) not null check (length(route) between 1 and 1020),
  subject_kind varbinary(1020) not null check (length(subject_kind) between 1 and 1020),
  subject_value varbinary(1020) not null check (length(subject_value) between 1 and 1020),
  generation bigint not null,
  status varbinary(64) not null,
  version bigint not null default 0,
  dead bigint not null default 0,
  due_at bigint,
  deadline_at bigint,
  body longtext not null,
  created_at bigint not null default {now},
  updated_at bigint not null default {now},
  ended_at bigint,
  unique key {saga_subject_index} (name, subject_kind, subject_value, generation)
) {table};

create table if not exists {inbox} (
  consumer varbinary(1020) not null check (length(consumer) between 1 and 1020),
  event_id binary(16) not null check (substr(event_id, 9, 1) <> '-' or substr(event_id, 14, 1) <> '-'),
  accepted_at bigint not null default {now},
  primary key (consumer, event_id)
) {table};

-- The newest owner of each lane that a consumer has seen, and where in the stream it saw that one first.
create table if not exists {inbox_fence} (
  consumer varbinary(1020) not null check (length(consumer) between 1 and 1020),
  lane varbinary(1023) not null check (length(lane) between 1 and 1023),
  fence bigint not null,
  stream longblob not null,
  position bigint not null,
  seen_at bigint not null default {now},
  primary key (consumer, lane)
) {table};

-- Relays that are running, for people: nothing is decided by it.
create table if not exists {relay} (
  run bigint not null primary key,
  route varbinary(1020) not null,
  owner varchar(255) not null,
  mode varchar(255) not null,
  wake varchar(255) not null,
  in_flight bigint not null,
  circuit varchar(255) not null,
  down_since bigint,
  outages bigint not null,
  reason text,
  started_at bigint not null,
  seen_at bigint not null,
  -- Until when it is taken for alive.
  lease_until bigint not null
) {table};

-- What is known of a route besides its entries: what dead entries do to their key, as the last relay said, which is null by
-- rows and only for people; and whether an operator has paused it, which relays honour. Its row is also the lock between
-- relays by rows, which share it, and relays by lanes, which have it alone while they join.
create table if not exists {route_state} (
  route varbinary(1020) not null primary key,
  on_dead varchar(64),
  paused_at bigint,
  paused_by varchar(255),
  pause_reason text
) {table};

-- Relays that read lanes: one row per run and route, there until it leaves or is taken for dead.
create table if not exists {lane_session} (
  -- The order of joining.
  `rank` bigint not null auto_increment primary key,
  route varbinary(1020) not null,
  session binary(16) not null,
  owner varchar(255) not null,
  leased_at bigint not null,
  lease_until bigint not null,
  -- How many sessions can share the route, as this one says.
  shares smallint not null,
  -- The highest seq that it has read.
  handed bigint not null default 0,
  -- If set, what it has in flight at most: [seq, …].
  isolated longtext,
  unique key {session_index} (route, session)
) {table};

-- All lanes of the routes that were ever read by lanes. Written when a lane changes hands, and not for its entries.
create table if not exists {lane} (
  route varbinary(1020) not null,
  lane smallint not null check (lane between 0 and 63),
  session binary(16),
  fence bigint not null default 0,
  -- How often operators have changed an entry in it.
  revision bigint not null default 0,
  primary key (route, lane)
) {table};

-- The keys that transactions lock until they end (`serialize`). Rows stay: a key is locked again.
create table if not exists {serial} (
  route varbinary(1020) not null,
  `key` varbinary(1020) not null,
  primary key (route, `key`)
) {table};

insert ignore into {versions} (version) values (1);
