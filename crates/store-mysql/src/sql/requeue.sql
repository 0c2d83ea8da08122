-- Puts dead entries back with a fresh budget. The fence stays: it only ever grows. ?1 now or null, which nothing here
-- needs, ?2 [seq, …]
update {seqs:2} as picked
straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq
set entry.status = 'pending', entry.attempts = 0, entry.crashes = 0, entry.due_at = null, entry.settled_at = null,
  entry.owner = null
where entry.status = 'dead'
