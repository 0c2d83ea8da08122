-- Version 1. Needs SQLite 3.38 or later, in every program that opens the file.
--
-- Plain SQL is a public way to stage: only route, type and payload (or payload_bytes) have no default. Times are whole
-- microseconds since 1970, UTC. The checks repeat what the library checks, for whoever does not use it.
create table {outbox} (
  seq integer primary key autoincrement,
  event_id text not null default (lower(
      hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
      || substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))
    -- Written out: a star in the pattern would be tried at every place.
    check (event_id glob '[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]'),
  route text not null check (length(route) between 1 and 255),
  type text not null check (length(type) between 1 and 255),
  key text check (length(key) between 1 and 255),
  -- One of both. The same columns as on PostgreSQL, where a text and bytes must be told apart.
  payload text,
  payload_bytes blob check ((payload is null) <> (payload_bytes is null)),
  content_type text not null default 'application/json' check (length(content_type) between 1 and 255),
  headers text not null default '{}'
    check (headers = '{}' or case when json_valid(headers) then json_type(headers) = 'object' else 0 end),
  tenant text check (length(tenant) between 1 and 255),
  correlation_id text check (length(correlation_id) between 1 and 255),
  causation_id text check (length(causation_id) between 1 and 255),
  execution_id text check (length(execution_id) between 1 and 255),
  occurred_at integer check (occurred_at between 0 and 253402300799999999),
  priority integer not null default 100 check (priority between -32768 and 32767),
  group_id text check (length(group_id) between 1 and 255),
  hlc integer check (hlc >= 0),
  status text not null default 'pending'
    check ({live} or {ended}),
  attempts integer not null default 0 check (attempts >= 0),
  -- How many of them ended because the lease expired.
  crashes integer not null default 0 check (crashes >= 0),
  max_attempts integer check (max_attempts between 1 and 1000000),
  due_at integer check (due_at is null or {live}),
  -- When the lease was taken or last prolonged: one that begins later than it is long was made before the clock was set back.
  leased_at integer,
  fence integer not null default 0,
  owner text,
  last_error text,
  last_attempt_at integer,
  created_at integer not null default {now},
  settled_at integer,
  -- Where the entries of one key meet, for ever; 64 for steps of sagas, which no relay by lanes reads. Left out, the
  -- trigger below fills it in.
  lane integer check (lane between 0 and 64),
  -- The id comes first: operators ask for an event without naming a route.
  unique (event_id, route)
) strict;

-- The lane of a plain insert, as `lane_of` has it: FNV-1a of 32 bits over the bytes of the key, or of the event id if
-- there is none. Two hex digits are a byte, x | y less x & y is their exclusive or, and a blob is cut without counting
-- its characters. `at` is where the digits after `byte` begin.
create trigger {lane_trigger} after insert on {outbox} when new.lane is null
begin
  update {outbox} set lane = iif(new.group_id is not null and new.content_type = 'application/vnd.pillarbox.step+json', 64, (
    with recursive fnv (digits, at, hash, byte) as (
      select digits, 3, 2166136261,
        (instr('123456789ABCDEF', substr(digits, 1, 1)) << 4) + instr('123456789ABCDEF', substr(digits, 2, 1))
      from (
        select cast(iif(new.key is null, upper(replace(new.event_id, '-', '')), hex(new.key)) as blob) as digits)
      union all
      select digits, at + 2, ((hash | byte) - (hash & byte)) * 16777619 & 4294967295,
        (instr('123456789ABCDEF', substr(digits, at, 1)) << 4) + instr('123456789ABCDEF', substr(digits, at + 1, 1))
      from fnv
      where at <= length(digits) + 2)
    select hash & 63 from fnv where at > length(digits) + 2))
  where seq = new.seq;
end;

create table {audit} (
  seq integer primary key autoincrement,
  at integer not null,
  kind text not null,
  actor text not null,
  route text,
  event_id text,
  saga_id text,
  subject_kind text,
  subject_value text,
  step text,
  detail text not null default ''
) strict;

-- The audit trail is append-only. Whoever deletes by policy drops {audit_kept} and makes it again, in one transaction.
create trigger {audit_unchanged} before update on {audit}
begin
  select raise(abort, 'the audit trail is append-only');
end;

create trigger {audit_kept} before delete on {audit}
begin
  select raise(abort, 'the audit trail is append-only');
end;

-- Sagas: one row each, their steps are entries whose group_id is the id. `dead` counts entries that the saga knows to
-- be dead, so that a sweep finds those that it does not know of; `due_at` is when a sweep is to look at it.
create table {saga} (
  id text primary key,
  name text not null check (length(name) between 1 and 255),
  route text not null check (length(route) between 1 and 255),
  subject_kind text not null check (length(subject_kind) between 1 and 255),
  subject_value text not null check (length(subject_value) between 1 and 255),
  generation integer not null,
  status text not null,
  version integer not null default 0,
  dead integer not null default 0,
  due_at integer,
  deadline_at integer,
  body text not null,
  created_at integer not null default {now},
  updated_at integer not null default {now},
  ended_at integer,
  unique (name, subject_kind, subject_value, generation)
) strict, without rowid;

create table {inbox} (
  consumer text not null check (length(consumer) between 1 and 255),
  event_id text not null,
  accepted_at integer not null default {now},
  primary key (consumer, event_id)
) strict, without rowid;

-- The newest owner of each lane that a consumer has seen, and where in the stream it saw that one first.
create table {inbox_fence} (
  consumer text not null check (length(consumer) between 1 and 255),
  lane text not null check (length(lane) between 1 and 1023),
  fence integer not null,
  stream text not null,
  position integer not null,
  seen_at integer not null default {now},
  primary key (consumer, lane)
) strict, without rowid;

-- Relays that are running, for people: nothing is decided by it.
create table {relay} (
  run integer primary key,
  route text not null,
  owner text not null,
  mode text not null,
  wake text not null,
  in_flight integer not null,
  circuit text not null,
  down_since integer,
  outages integer not null,
  reason text,
  started_at integer not null,
  seen_at integer not null,
  -- Until when it is taken for alive.
  lease_until integer not null
) strict;

-- What is known of a route besides its entries: what dead entries do to their key, as the last relay said, which is null by
-- rows and only for people; and whether an operator has paused it, which relays honour.
create table {route_state} (
  route text primary key,
  on_dead text,
  paused_at integer,
  paused_by text,
  pause_reason text
) strict, without rowid;

-- Relays that read lanes: one row per run and route, there until it leaves or is taken for dead.
create table {lane_session} (
  -- The order of joining.
  rank integer primary key autoincrement,
  route text not null,
  session text not null,
  owner text not null,
  leased_at integer not null,
  lease_until integer not null,
  -- How many sessions can share the route, as this one says.
  shares integer not null,
  -- The highest seq that it has read.
  handed integer not null default 0,
  -- If set, what it has in flight at most: [seq, …].
  isolated text,
  unique (route, session)
) strict;

-- All lanes of the routes that were ever read by lanes. Written when a lane changes hands, and not for its entries.
create table {lane} (
  route text not null,
  lane integer not null check (lane between 0 and 63),
  session text,
  fence integer not null default 0,
  -- How often operators have changed an entry in it.
  revision integer not null default 0,
  primary key (route, lane)
) strict, without rowid;

create table {versions} (
  version integer primary key,
  applied_at integer not null default {now}
) strict;

insert into {versions} (version) values (1);
