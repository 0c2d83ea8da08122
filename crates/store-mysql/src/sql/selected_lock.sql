-- Takes locks on entries that are about to be changed, and tells their status now. ?1 [seq, …]
select entry.seq, entry.status from (select * from {seqs:1} as list) as picked
straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq
for update
