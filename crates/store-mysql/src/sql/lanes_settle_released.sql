-- Says of entries that are given back why they wait, and changes nothing else. A probe that is in vain for the same reason
-- writes nothing. ?1 [[seq, failure], …]
update json_table(?1, '$[*]' columns (seq bigint path '$[0]', failure longtext {text} path '$[1]')) as verdict
straight_join {outbox} as entry force index (primary) on entry.seq = verdict.seq
set entry.last_error = verdict.failure
where not (entry.last_error <=> verdict.failure)
