-- Deletes what was settled long enough ago, never the dead. One arm a status: each goes along the index in the order of
-- settling, so the oldest go first without being sorted. ?1 now or null, ?2 age in microseconds, ?3 limit
with
delivered (seq) as materialized (
  select seq from {outbox}
  where status = 'delivered' and {ended}
    and settled_at <= coalesce(?1, {now}) - ?2
  limit ?3),
discarded (seq) as materialized (
  select seq from {outbox}
  where status = 'discarded' and {ended}
    and settled_at <= coalesce(?1, {now}) - ?2
  limit ?3 - (select count(*) from delivered))
delete from {outbox} where seq in (select seq from delivered union all select seq from discarded)
