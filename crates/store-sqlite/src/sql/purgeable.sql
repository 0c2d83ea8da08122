-- How many entries a purge deletes; see purge.sql. ?1 now or null, ?2 age in microseconds, ?3 limit
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
select (select count(*) from delivered) + (select count(*) from discarded)
