-- Pauses a route that is not. ?1 now or null, ?2 route, ?3 actor, ?4 reason
insert into {route_state} (route, paused_at, paused_by, pause_reason) values (?2, coalesce(?1, {now}), ?3, ?4)
on duplicate key update
  paused_by = if(paused_at is null, values(paused_by), paused_by),
  pause_reason = if(paused_at is null, values(pause_reason), pause_reason),
  paused_at = coalesce(paused_at, values(paused_at))
