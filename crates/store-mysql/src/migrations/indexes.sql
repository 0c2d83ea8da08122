-- The indexes: made by every migration, one statement each. `migrate` runs those that are missing.

-- What rows are claimed, counted, reaped and purged by; the status is there so that counts need the index alone. One index
-- for all: each further one would be written by every settle.
create index {open_index} on {outbox} (part, route, at, priority, seq, status);

-- What lanes read, in their order, and what operators see of what waits.
create index {lane_index} on {outbox} (live_lane, route, seq);

create index {audit_event_index} on {audit} (event_id, seq);

-- The audit trail of a subject, and of one saga.
create index {audit_subject_index} on {audit} (subject_kind, subject_value, seq);
create index {audit_saga_index} on {audit} (saga_id, seq);

-- What a sweep looks for: sagas that know of dead steps, sagas whose time has come.
create index {saga_dead_index} on {saga} (dead, id);
create index {saga_due_index} on {saga} (due_at, id);
-- Sagas of a route that have not ended, for relays that leave their steps alone.
create index {saga_open_index} on {saga} (route, ended_at);
-- For lists and counts.
create index {saga_status_index} on {saga} (status, created_at, id);
-- For purging sagas by age.
create index {saga_ended_index} on {saga} (ended_at, id);

-- For purging the inbox by age.
create index {inbox_age_index} on {inbox} (accepted_at);
