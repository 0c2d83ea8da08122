-- How a relay is; when it started is kept. Forgets relays that died without a word on the way: those that another
-- one is about to forget are left to it.
with swept as (
    delete from {relay} where run in (
        select run from {relay}
        where seen_at <= coalesce($11, statement_timestamp()) - $12 * interval '1 microsecond' and run <> $1
        for update skip locked)
)
insert into {relay}
    (run, route, owner, mode, wake, in_flight, circuit, down_since, outages, reason, started_at, seen_at)
values ($1, $2, $3, $4, $5, $6, $7, coalesce($11, statement_timestamp()) - $8 * interval '1 microsecond', $9, $10,
    coalesce($11, statement_timestamp()), coalesce($11, statement_timestamp()))
on conflict (run) do update set
    route = excluded.route, owner = excluded.owner, mode = excluded.mode, wake = excluded.wake,
    in_flight = excluded.in_flight, circuit = excluded.circuit, down_since = excluded.down_since,
    outages = excluded.outages, reason = excluded.reason, seen_at = excluded.seen_at
