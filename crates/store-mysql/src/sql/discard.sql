-- Gives up for good what is dead, or waits and is cancelled. ?1 now or null, ?2 [seq, …]
update {seqs:2} as picked
straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq
set entry.status = 'discarded', entry.due_at = null, entry.settled_at = coalesce(?1, {now})
where entry.status in ('dead', 'pending', 'retrying')
