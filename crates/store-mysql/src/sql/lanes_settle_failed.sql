-- Records retries and deaths of entries that this transaction has locked.
-- ?1 now or null, ?2 [[seq, is a death, failure, attempts, wait in microseconds], …]
update json_table(?2, '$[*]' columns (seq bigint path '$[0]', death tinyint path '$[1]', failure longtext {text} path '$[2]',
  spent bigint path '$[3]', wait bigint path '$[4]')) as verdict
straight_join {outbox} as entry force index (primary) on entry.seq = verdict.seq
set
  entry.status = if(verdict.death, 'dead', 'retrying'),
  entry.attempts = greatest(entry.attempts, verdict.spent),
  entry.due_at = least(coalesce(?1, {now}) + verdict.wait, 253402300799999999),
  entry.last_error = verdict.failure,
  entry.last_attempt_at = coalesce(?1, {now}),
  entry.settled_at = if(verdict.death, coalesce(?1, {now}), null)
