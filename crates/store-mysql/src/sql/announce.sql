-- How a relay is; when it started is kept. ?1 run, ?2 route, ?3 owner, ?4 mode, ?5 wake, ?6 in flight, ?7 circuit,
-- ?8 microseconds since the destination is down or null, ?9 outages, ?10 reason or null, ?11 now or null,
-- ?12 lease in microseconds
insert into {relay}
  (run, route, owner, mode, wake, in_flight, circuit, down_since, outages, reason, started_at, seen_at, lease_until)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, coalesce(?11, {now}) - ?8, ?9, ?10, coalesce(?11, {now}), coalesce(?11, {now}),
  coalesce(?11, {now}) + ?12)
on duplicate key update
  route = values(route), owner = values(owner), mode = values(mode), wake = values(wake),
  in_flight = values(in_flight), circuit = values(circuit), down_since = values(down_since),
  outages = values(outages), reason = values(reason), seen_at = values(seen_at), lease_until = values(lease_until)
