-- The audit rows that a change has just written for these entries. They are locked, so nobody else can have written such a
-- row since. ?1 the first row of the change, ?2 kind, ?3 [seq, …] of the entries
select audit.seq, audit.at, audit.kind, audit.actor, audit.route, audit.event_id, audit.saga_id, audit.subject_kind,
  audit.subject_value, audit.step, audit.detail
from {seqs:3} as picked
straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq
straight_join {audit} as audit on audit.event_id = entry.event_id
where audit.seq >= ?1 and audit.kind = ?2 and audit.route = entry.route
order by audit.seq
