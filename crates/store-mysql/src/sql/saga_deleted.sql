-- Delivered entries of sagas that nobody keeps. ?1 [seq, …]
delete entry from {seqs:1} as picked straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq
