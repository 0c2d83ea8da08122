-- Dead entries with a key. ?1 route, ?2 [lane, …]
select seq, key, lane from {outbox}
where status = 'dead' and {ended} and route = ?1 and key is not null
  and +lane in (select value from json_each(?2))
