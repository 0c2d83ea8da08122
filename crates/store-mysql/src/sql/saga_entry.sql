-- What becomes of the entries of sagas. ?1 now, ?2 [[seq, fence, status before, change, failure], …]
update json_table(?2, '$[*]' columns (seq bigint path '$[0]', fence bigint path '$[1]', seen varchar(16) {text} path '$[2]',
  changes varchar(16) {text} path '$[3]', failure longtext {text} path '$[4]')) as moved
straight_join {outbox} as entry force index (primary) on entry.seq = moved.seq and entry.fence = moved.fence
set
  entry.last_error = if(moved.changes = 'delivered', null, coalesce(moved.failure, entry.last_error)),
  entry.status = if(moved.changes = 'requeued', 'pending', moved.changes),
  entry.attempts = if(moved.changes = 'requeued', 0, entry.attempts),
  entry.crashes = if(moved.changes = 'requeued', 0, entry.crashes),
  entry.due_at = null,
  entry.owner = null,
  entry.settled_at = if(moved.changes = 'requeued', null, ?1)
where entry.status = moved.seen
