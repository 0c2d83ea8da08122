-- Takes free lanes. ?1 now, ?2 route, ?3 session, ?4 [lane, …]
update {seqs:4} as given
straight_join {lane} as held force index (primary) on held.route = ?2 and held.lane = given.seq
set
  held.session = ?3,
  -- At least the clock: it grows even when the write of the last owner was lost in a crash.
  held.fence = greatest(held.fence + 1, ?1)
