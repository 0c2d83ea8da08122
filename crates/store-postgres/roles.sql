-- Least privilege: three roles for the tables of the default prefix in the schema public.
-- Run it as the owner of the tables, after `pillarbox migrate`, and grant the roles to the users that log in:
--     grant pillarbox_stage to shop_service;
-- For another schema or prefix, replace the names.

-- Applications: stage events, mark what they consumed, and nothing else. No payload can be read back, no entry
-- changed. The two columns are what the unique index on them needs to say that an event is already there.
create role pillarbox_stage nologin;
grant usage on schema public to pillarbox_stage;
grant insert, select (event_id, route) on public.pillarbox_outbox to pillarbox_stage;
grant execute on function public.pillarbox_stage to pillarbox_stage;
grant execute on function public.pillarbox_serialize to pillarbox_stage;
grant insert, select (id, name, subject_kind, subject_value, generation) on public.pillarbox_saga to pillarbox_stage;
grant insert, select (consumer, event_id) on public.pillarbox_inbox to pillarbox_stage;
grant select, insert, update on public.pillarbox_inbox_fence to pillarbox_stage;

-- Relays and operators: work on the entries. The audit trail can be written and read, never changed.
create role pillarbox_relay nologin;
grant usage on schema public to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_outbox to pillarbox_relay;
grant select on sequence public.pillarbox_outbox_seq_seq to pillarbox_relay;
grant select, insert on public.pillarbox_audit to pillarbox_relay;
grant select, insert, update on public.pillarbox_saga to pillarbox_relay;
grant select, insert, delete on public.pillarbox_inbox to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_inbox_fence to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_relay to pillarbox_relay;
grant select, insert, update on public.pillarbox_route_state to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_lane to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_lane_session to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_lane_handed to pillarbox_relay;
grant select on public.pillarbox_schema to pillarbox_relay;

-- Migrations: the tables belong to this role, and it may make new ones. Nobody needs it at run time.
create role pillarbox_admin nologin;
grant usage, create on schema public to pillarbox_admin;
alter table public.pillarbox_outbox owner to pillarbox_admin;
alter table public.pillarbox_audit owner to pillarbox_admin;
alter table public.pillarbox_saga owner to pillarbox_admin;
alter function public.pillarbox_audit_guard owner to pillarbox_admin;
alter table public.pillarbox_inbox owner to pillarbox_admin;
alter table public.pillarbox_inbox_fence owner to pillarbox_admin;
alter table public.pillarbox_relay owner to pillarbox_admin;
alter table public.pillarbox_route_state owner to pillarbox_admin;
alter table public.pillarbox_lane owner to pillarbox_admin;
alter table public.pillarbox_lane_session owner to pillarbox_admin;
alter table public.pillarbox_lane_handed owner to pillarbox_admin;
alter table public.pillarbox_schema owner to pillarbox_admin;
alter function public.pillarbox_stage owner to pillarbox_admin;
alter function public.pillarbox_serialize owner to pillarbox_admin;
alter type public.pillarbox_status owner to pillarbox_admin;
alter domain public.pillarbox_route owner to pillarbox_admin;
