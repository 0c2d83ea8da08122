-- Gives dead entries up for good. ?1 now or null, ?2 [seq, …]
update {outbox} set status = 'discarded', settled_at = coalesce(?1, {now})
where status = 'dead' and seq in (select value from json_each(?2))
