-- When these entries were staged. ?1 [seq, …]
select entry.seq, entry.created_at from {seqs:1} as picked straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq
