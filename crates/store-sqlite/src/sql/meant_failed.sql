-- What failed or was given up, in the order of staging, by the index of that alone.
entry.seq in (
  select entry.seq from {outbox} as entry
  where {failed} and {matching}
  order by entry.seq
  limit ?14)
