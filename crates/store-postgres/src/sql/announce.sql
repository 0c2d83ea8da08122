-- How a relay is; when it started is kept. Forgets relays that died without a word on the way: those that another
-- one is about to forget are left to it.
with swept as (
    delete from {relay} where run in (
        select run from {relay}
        where seen_at <= coalesce($11, statement_timestamp()) - $12 * interval '1 microsecond' and run <> $1
        for update skip locked)
), known as (
    -- What dead entries do to their key on the route. Nearly always that is known.
    insert into {route_state} (route, on_dead)
    select $2, $14::text
    where not exists (
        select from {route_state} where route = $2 and on_dead is not distinct from $14::text)
    on conflict (route) do update set on_dead = excluded.on_dead
)
insert into {relay}
    (run, route, owner, mode, wake, in_flight, circuit, down_since, outages, reason, started_at, seen_at, lease_until)
values ($1, $2, $3, $4, $5, $6, $7, coalesce($11, statement_timestamp()) - $8 * interval '1 microsecond', $9, $10,
    coalesce($11, statement_timestamp()), coalesce($11, statement_timestamp()),
    coalesce($11, statement_timestamp()) + $13 * interval '1 microsecond')
on conflict (run) do update set
    route = excluded.route, owner = excluded.owner, mode = excluded.mode, wake = excluded.wake,
    in_flight = excluded.in_flight, circuit = excluded.circuit, down_since = excluded.down_since,
    outages = excluded.outages, reason = excluded.reason, seen_at = excluded.seen_at,
    lease_until = excluded.lease_until
