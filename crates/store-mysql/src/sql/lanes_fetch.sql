-- Entries that are not settled, by their rows. ?1 route, ?2 [seq, …]
select {entry_columns} from {seqs:2} as picked
straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq
where entry.route = ?1 and entry.live_lane is not null
