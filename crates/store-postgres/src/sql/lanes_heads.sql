-- Entries with a key that lanes do not read and that may hold back what is behind them: the dead, and what relays by rows
-- have in flight. (One in flight without the end of a lease is reaped before anything is read.)
select seq, key, {lane_of}::smallint as lane, true as dead
from {outbox}
where status = 'dead' and route = $1 and key is not null and {lane_of} = any ($2::smallint[])
union all
select seq, key, {lane_of}::smallint, false
from {outbox}
where route = $1 and due_at is not null and status = 'in_flight' and key is not null
    and {lane_of} = any ($2::smallint[])
