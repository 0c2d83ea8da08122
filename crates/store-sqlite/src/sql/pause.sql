-- Pauses a route that is not. ?1 now or null, ?2 route, ?3 actor, ?4 reason
insert into {route_state} (route, paused_at, paused_by, pause_reason) values (?2, coalesce(?1, {now}), ?3, ?4)
on conflict (route) do update
  set paused_at = excluded.paused_at, paused_by = excluded.paused_by, pause_reason = excluded.pause_reason
  where {route_state}.paused_at is null
