-- Puts dead entries back with a fresh budget. The fence stays: it only ever grows. ?1 now or null, ?2 [seq, …]
update {outbox} set status = 'pending', attempts = 0, crashes = 0, due_at = null, settled_at = null, owner = null
where status = 'dead' and seq in (select value from json_each(?2))
