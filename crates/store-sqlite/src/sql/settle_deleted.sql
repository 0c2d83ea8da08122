-- Delivered entries that are not kept. ?1 [[seq, fence], …]
with held (seq, fence) as materialized (select value ->> 0, value ->> 1 from json_each(?1))
delete from {outbox}
where status = 'in_flight' and seq in (select seq from held)
  and fence = (select fence from held where held.seq = {outbox}.seq)
returning seq, fence
