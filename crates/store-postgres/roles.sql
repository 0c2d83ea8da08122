-- Least privilege: four roles for the tables of the default prefix in the schema public.
-- Run it as a superuser, or as the owner of the tables with the right to make roles, after `pillarbox migrate`; and again
-- after a migration that made tables. Then grant the roles to the users that log in:
--     grant pillarbox_stage to shop_service;
--     grant pillarbox_relay to shop_relay;
--     grant pillarbox_read to shop_monitoring;
--     grant pillarbox_admin to shop_deploy;        -- whoever runs `pillarbox migrate` from now on
-- For another schema or prefix, replace the names.

do $roles$
declare
    wanted text;
begin
    foreach wanted in array array['pillarbox_stage', 'pillarbox_relay', 'pillarbox_read', 'pillarbox_admin'] loop
        if not exists (select from pg_catalog.pg_roles where rolname = wanted) then
            execute format('create role %I nologin', wanted);
        end if;
    end loop;
end
$roles$;

-- Applications: stage events, mark what they consumed, and nothing else. No payload can be read back, no entry
-- changed. The two columns are what the unique index on them needs to say that an event is already there.
grant usage on schema public to pillarbox_stage;
grant insert, select (event_id, route) on public.pillarbox_outbox to pillarbox_stage;
grant execute on function public.pillarbox_stage to pillarbox_stage;
grant execute on function public.pillarbox_serialize to pillarbox_stage;
grant insert, select (id, name, subject_kind, subject_value, generation) on public.pillarbox_saga to pillarbox_stage;
grant insert, select (consumer, event_id) on public.pillarbox_inbox to pillarbox_stage;
grant select, insert, update on public.pillarbox_inbox_fence to pillarbox_stage;

-- Relays and operators: work on the entries, and forget what is old. The audit trail can be written and read, never
-- changed. A row that is to be deleted is locked first, and that takes the right to update it, of one column at least. The
-- tables of sessions are emptied by relays that find them damaged.
grant usage on schema public to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_outbox to pillarbox_relay;
grant select on sequence public.pillarbox_outbox_seq_seq to pillarbox_relay;
grant select, insert on public.pillarbox_audit to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_saga to pillarbox_relay;
grant select, insert, update (accepted_at), delete on public.pillarbox_inbox to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_inbox_fence to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_relay to pillarbox_relay;
grant select, insert, update on public.pillarbox_route_state to pillarbox_relay;
grant select, insert, update, delete on public.pillarbox_lane to pillarbox_relay;
grant select, insert, update, delete, truncate on public.pillarbox_lane_session to pillarbox_relay;
grant select, insert, update, delete, truncate on public.pillarbox_lane_handed to pillarbox_relay;
grant execute on function public.pillarbox_may_claim to pillarbox_relay;
grant select on public.pillarbox_schema to pillarbox_relay;

-- Monitoring: everything that `status`, `list`, `show` and the `saga` commands that change nothing read, payloads included.
grant usage on schema public to pillarbox_read;
grant select on public.pillarbox_outbox to pillarbox_read;
grant select on public.pillarbox_audit to pillarbox_read;
grant select on public.pillarbox_saga to pillarbox_read;
grant select on public.pillarbox_inbox to pillarbox_read;
grant select on public.pillarbox_inbox_fence to pillarbox_read;
grant select on public.pillarbox_relay to pillarbox_read;
grant select on public.pillarbox_route_state to pillarbox_read;
grant select on public.pillarbox_lane to pillarbox_read;
grant select on public.pillarbox_lane_session to pillarbox_read;
grant select on public.pillarbox_lane_handed to pillarbox_read;
grant select on public.pillarbox_schema to pillarbox_read;

-- Migrations: the tables belong to this role, and it may make new ones. Nobody needs it at run time. A user that
-- migrated before and is no member of it is told so by the next `pillarbox migrate` that has something to do.
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
alter function public.pillarbox_may_claim owner to pillarbox_admin;
alter type public.pillarbox_status owner to pillarbox_admin;
alter domain public.pillarbox_route owner to pillarbox_admin;
alter domain public.pillarbox_payload owner to pillarbox_admin;
