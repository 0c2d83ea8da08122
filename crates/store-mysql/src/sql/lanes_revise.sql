-- Tells the readers of lanes that an operator has changed one of their entries. ?1 [seq, …]
update {lane} as held
join (
  select distinct entry.route, entry.lane
  from {seqs:1} as picked straight_join {outbox} as entry force index (primary) on entry.seq = picked.seq) as changed
  on changed.route = held.route and changed.lane = held.lane
set held.revision = held.revision + 1
