-- What retries or is in flight, by the indexes of what was claimed before and of what has a time. Each arm is in the order of
-- its index, so that no other is taken. What retries was claimed before.
entry.seq in (
  select seq from (
    select seq from (
      select entry.seq from {outbox} as entry
      where entry.due_at is null and {live} and (attempts > 0 or status = 'in_flight') and entry.status <> 'pending' and {matching}
      order by entry.route, entry.seq
      limit -1)
    union all
    select seq from (
      select entry.seq from {outbox} as entry
      where entry.due_at is not null and entry.status <> 'pending' and {matching}
      order by entry.route, entry.due_at, entry.seq
      limit -1))
  order by +seq
  limit ?14)
