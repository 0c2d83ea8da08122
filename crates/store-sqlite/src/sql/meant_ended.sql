-- What is at its end, by the index of that, in which the dead are few. In the order of that index, so that the table is not
-- read in its own order where nearly everything is at its end.
entry.seq in (
  select seq from (
    select entry.seq from {outbox} as entry
    where {ended} and {matching}
    order by entry.status, entry.settled_at
    limit -1)
  order by +seq
  limit ?14)
