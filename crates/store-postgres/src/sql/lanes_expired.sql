-- Sessions that gave no sign of life in time. One that is just reading or settling is left for the next time: whoever
-- waited for it here would keep all others from giving their signs of life.
select session from {lane_session}
where route = $1 and session <> $2 and lease_until <= coalesce($3, statement_timestamp())
for update skip locked
