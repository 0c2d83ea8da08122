-- A new session, or another sign of life of one. ?1 now, ?2 route, ?3 session, ?4 owner, ?5 lease in microseconds,
-- ?6 shares
insert into {lane_session} (route, session, owner, leased_at, lease_until, shares) values (?2, ?3, ?4, ?1, ?1 + ?5, ?6)
on conflict (route, session) do update
set owner = excluded.owner, leased_at = excluded.leased_at, lease_until = excluded.lease_until, shares = excluded.shares
