-- Gives up for good what is dead, or waits and is cancelled. ?1 now or null, ?2 [seq, …]
update {outbox} set status = 'discarded', due_at = null, settled_at = coalesce(?1, {now})
where status in ('dead', 'pending', 'retrying') and seq in (select value from json_each(?2))
