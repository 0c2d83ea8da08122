-- What is at its end, by the index of that, in which the dead are few.
entry.seq in (select entry.seq from {outbox} as entry where {ended} and {matching} order by entry.seq limit ?14)
