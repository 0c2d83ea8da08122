-- Entries with a key that lanes do not read and that may hold back what is behind them: the dead, and what relays by rows
-- have in flight. ?1 route, ?2 [lane, …]
select seq, `key`, lane, 1 as dead from {outbox} force index ({open_index})
where part = 5 and route = ?1 and `key` is not null
  and lane in (select seq from {seqs:2} as given)
union all
select seq, `key`, lane, 0 from {outbox} force index ({open_index})
where part in (1, 2) and route = ?1 and status = 'in_flight' and `key` is not null
  and lane in (select seq from {seqs:2} as given)
