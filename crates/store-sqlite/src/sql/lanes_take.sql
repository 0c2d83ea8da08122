-- Takes free lanes. ?1 now, ?2 route, ?3 session, ?4 [lane, …]
update {lane} set
  session = ?3,
  -- At least the clock: it grows even when the write of the last owner was lost in a crash.
  fence = max(fence + 1, ?1)
where route = ?2 and lane in (select value from json_each(?4))
returning lane, fence
