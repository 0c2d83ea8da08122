-- The routes that are paused.
select route::text, paused_at, coalesce(paused_by, ''), coalesce(pause_reason, '')
from {route_state}
where paused_at is not null
