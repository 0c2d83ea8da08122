-- Sessions that gave no sign of life in time, or whose last one is of before the clock was set back. One that is just reading or settling is left for the next time: whoever
-- waited for it here would keep all others from giving their signs of life.
select session from {lane_session}
where route = $1 and session is distinct from $2 and (lease_until <= coalesce($3, statement_timestamp())
    or leased_at - coalesce($3, statement_timestamp()) > lease_until - leased_at)
for update skip locked
