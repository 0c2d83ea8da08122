-- A new session, or another sign of life of one. ?1 now, ?2 route, ?3 session, ?4 owner, ?5 lease in microseconds,
-- ?6 shares
insert into {lane_session} (route, session, owner, leased_at, lease_until, shares) values (?2, ?3, ?4, ?1, ?1 + ?5, ?6)
on duplicate key update
  owner = values(owner), leased_at = values(leased_at), lease_until = values(lease_until), shares = values(shares)
