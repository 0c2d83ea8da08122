-- What a purge deletes, oldest first, never the dead. One arm a status, because the index is in the order of
-- settling only within one status. ?1 now or null, ?2 age in microseconds, ?3 limit
with
delivered (seq) as materialized (
  select seq from {outbox}
  where status = 'delivered' and status in ('delivered', 'dead', 'discarded')
    and settled_at <= coalesce(?1, {now}) - ?2
  order by settled_at
  limit ?3),
discarded (seq) as materialized (
  select seq from {outbox}
  where status = 'discarded' and status in ('delivered', 'dead', 'discarded')
    and settled_at <= coalesce(?1, {now}) - ?2
  order by settled_at
  limit ?3 - (select count(*) from delivered))
select seq from delivered union all select seq from discarded
