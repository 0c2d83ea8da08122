-- The first sign of life of a session. What sessions that are gone have left behind goes with it: a read that ended
-- together with its session may have noted something after all.
with swept as (
    delete from {lane_handed} as h
    where h.route = $1
        and not exists (select from {lane_session} as s where s.route = h.route and s.session = h.session)
)
insert into {lane_session} (route, session, owner, leased_at, lease_until, shares)
values ($1, $2, $3, coalesce($4, statement_timestamp()), coalesce($4, statement_timestamp()) + $5 * interval '1 microsecond', $6)
returning session
