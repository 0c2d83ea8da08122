-- The verdicts that count: the entry is in the lane that handed it out and is not settled; locked until the transaction
-- ends. A retry leaves it so: a second one, or one of before a requeue, is told by its attempts.
-- ?1 route, ?2 [[seq, fence, lane, attempts of a retry or null], …]
select entry.seq, verdict.fence
from (select * from json_table(?2, '$[*]' columns (seq bigint path '$[0]', fence bigint path '$[1]', lane bigint path '$[2]',
  attempts bigint path '$[3]')) as list) as verdict
straight_join {outbox} as entry force index (primary) on entry.seq = verdict.seq
where entry.route = ?1 and entry.live_lane = verdict.lane and coalesce(entry.attempts + 1 = verdict.attempts, 1)
for update
