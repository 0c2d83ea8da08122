-- A sign of life of a session that is there.
update {lane_session}
set owner = $3, leased_at = coalesce($4, statement_timestamp()),
    lease_until = coalesce($4, statement_timestamp()) + $5 * interval '1 microsecond', shares = $6
where route = $1 and session = $2
returning session
