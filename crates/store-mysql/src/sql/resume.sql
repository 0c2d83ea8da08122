-- Lets a paused route go on. ?1 now or null, ?2 route, ?3 actor, ?4 reason
update {route_state} set paused_at = null, paused_by = null, pause_reason = null
where route = ?2 and paused_at is not null
