-- Deliveries that are not kept. ?1 now or null, which nothing here needs, ?2 {"seq": fence, …}
delete from {outbox}
where (seq, fence) in (select cast(key as integer), value from json_each(?2)) and status = 'in_flight'
