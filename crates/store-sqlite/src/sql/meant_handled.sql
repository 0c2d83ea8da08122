-- What retries or is in flight, by the indexes of live entries, which say the status. Each arm is in the order of its
-- index, so that no other is taken.
entry.seq in (
  select seq from (
    select seq from (
      select entry.seq from {outbox} as entry
      where entry.due_at is null and {live} and entry.status <> 'pending' and {matching}
      order by entry.route, entry.priority, entry.seq
      limit -1)
    union all
    select seq from (
      select entry.seq from {outbox} as entry
      where entry.due_at is not null and entry.status <> 'pending' and {matching}
      order by entry.route, entry.due_at, entry.seq
      limit -1))
  order by +seq
  limit ?14)
