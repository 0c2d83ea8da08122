-- Records verdicts other than deliveries, of claims that this transaction has locked.
-- ?1 now or null, ?2 [[seq, fence, verdict, wait in microseconds, failure], …]
update {verdicts:2} as verdict
straight_join {outbox} as entry force index (primary) on entry.seq = verdict.seq and entry.fence = verdict.fence
set
  entry.status = case verdict.name
    when 'released' then if(entry.attempts <= 1, 'pending', 'retrying')
    when 'parked' then 'pending'
    else verdict.name end,
  entry.attempts = if(verdict.name = 'parked', 0, greatest(entry.attempts - (verdict.name = 'released'), 0)),
  entry.crashes = if(verdict.name = 'parked', 0, entry.crashes),
  entry.due_at = if(verdict.name in ('retrying', 'parked'), least(coalesce(?1, {now}) + verdict.wait, 253402300799999999), null),
  entry.owner = null,
  entry.last_error = coalesce(verdict.failure, entry.last_error),
  entry.settled_at = if(verdict.name = 'dead', coalesce(?1, {now}), null)
where entry.status = 'in_flight'
