-- Least privilege: what each kind of user needs, for the tables of the default prefix. Run it in the database of the
-- tables, as an administrator, after `pillarbox migrate`. Both servers have roles; give them to the users that log in:
--     grant pillarbox_relay to 'shop_relay'@'%'; set default role …
create role if not exists pillarbox_stage, pillarbox_relay;

-- Applications: stage events and sagas, and mark what they consumed. No payload can be read back. To find out that an event
-- is already there, MariaDB asks for the right to update each column that is inserted.
grant insert, select (seq, event_id, route, hlc), update (seq, event_id, route, type, `key`, payload_bytes, content_type,
  headers, tenant, correlation_id, causation_id, execution_id, occurred_at, priority, group_id, hlc, max_attempts, due_at)
  on pillarbox_outbox to pillarbox_stage;
grant insert, select on pillarbox_saga to pillarbox_stage;
grant insert, select, update on pillarbox_inbox to pillarbox_stage;
grant insert, select, update on pillarbox_inbox_fence to pillarbox_stage;
grant insert, select, update, delete on pillarbox_serial to pillarbox_stage;

-- Relays and operators: work on the entries, and forget what is old. The audit trail can be written and read, never
-- changed.
grant select, insert, update, delete on pillarbox_outbox to pillarbox_relay;
grant select, insert on pillarbox_audit to pillarbox_relay;
grant select, insert, update, delete on pillarbox_saga to pillarbox_relay;
grant select, insert, update, delete on pillarbox_inbox to pillarbox_relay;
grant select, insert, update, delete on pillarbox_inbox_fence to pillarbox_relay;
grant select, insert, update, delete on pillarbox_relay to pillarbox_relay;
grant select, insert, update, delete on pillarbox_route_state to pillarbox_relay;
grant select, insert, update, delete on pillarbox_lane_session to pillarbox_relay;
grant select, insert, update, delete on pillarbox_lane to pillarbox_relay;
grant select on pillarbox_schema to pillarbox_relay;
