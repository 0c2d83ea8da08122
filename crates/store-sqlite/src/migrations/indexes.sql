-- The indexes: made by every migration, and again by `migrate` when one is missing.

-- A live entry is in exactly one of the next two. The columns after seq are there so that claims, counts and
-- reaps need the index alone.
create index if not exists {ready_index} on {outbox} (route, priority, seq, status, due_at)
  where due_at is null and {live};
create index if not exists {due_index} on {outbox} (route, due_at, seq, status, attempts, max_attempts, crashes, lane)
  where due_at is not null;

-- What lanes read, in their order. A row that was claimed is not theirs until it is reaped.
create index if not exists {lane_index} on {outbox} (route, lane, seq)
  where {unsettled};

-- What is looked for among the entries that are due at once: by the reaper, in flight without a lease's end, or
-- attempts spent; by claims, what came back from an expired lease. A fresh entry is not in it, so it costs staging nothing.
create index if not exists {stuck_index} on {outbox} (route, seq)
  where due_at is null and {live} and (attempts > 0 or status = 'in_flight');

create index if not exists {ended_index} on {outbox} (status, settled_at, route)
  where {ended};

-- What holds back the later entries of its key. Only the dead are in it, so it costs the others nothing.
create index if not exists {dead_index} on {outbox} (route, lane, key, seq)
  where status = 'dead' and key is not null;

-- What an operator lists and groups of what failed, in the order of staging. It has all columns that a filter asks for, so
-- that rows are read of a page alone. Only what is dead, discarded or retrying is in it.
create index if not exists {failed_index}
  on {outbox} (seq, status, route, type, key, tenant, last_error, settled_at, created_at, due_at, lane)
  where {failed};

create index if not exists {audit_event_index} on {audit} (event_id, seq) where event_id is not null;

-- The audit trail of a subject, and of one saga.
create index if not exists {audit_subject_index} on {audit} (subject_kind, subject_value, seq)
  where subject_kind is not null;
create index if not exists {audit_saga_index} on {audit} (saga_id, seq) where saga_id is not null;

-- What a sweep looks for: dead steps, sagas that know of dead steps, sagas whose time has come.
create index if not exists {dead_step_index} on {outbox} (group_id) where group_id is not null and status = 'dead';
create index if not exists {saga_dead_index} on {saga} (id) where dead > 0;
create index if not exists {saga_due_index} on {saga} (due_at) where due_at is not null;
-- Sagas of a route that have not ended, for relays that leave their steps alone.
create index if not exists {saga_open_index} on {saga} (route) where ended_at is null;
-- For lists and counts.
create index if not exists {saga_status_index} on {saga} (status, created_at, id);
-- For purging sagas by age.
create index if not exists {saga_ended_index} on {saga} (ended_at) where ended_at is not null;

-- For purging the inbox by age.
create index if not exists {inbox_age_index} on {inbox} (accepted_at);
