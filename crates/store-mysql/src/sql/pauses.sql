-- The routes that are paused.
select route, paused_at, paused_by, pause_reason from {route_state} where paused_at is not null
