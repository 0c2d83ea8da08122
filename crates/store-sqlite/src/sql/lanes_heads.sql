-- Entries with a key that lanes do not read and that may hold back what is behind them: the dead, and what relays by rows
-- have in flight. ?1 route, ?2 [lane, …]
select seq, key, lane, status = 'dead' as dead from {outbox}
where status = 'dead' and key is not null and route = ?1 and lane in (select value from json_each(?2))
union all
select seq, key, lane, 0 from {outbox}
where route = ?1 and due_at is not null and status = 'in_flight' and key is not null
  and +lane in (select value from json_each(?2))
