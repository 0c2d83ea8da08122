-- Makes entries due that wait for their time. ?1 now or null, which nothing here needs, ?2 [seq, …]
update {seqs:2} as picked
straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq
set entry.due_at = null
where entry.status in ('pending', 'retrying')
