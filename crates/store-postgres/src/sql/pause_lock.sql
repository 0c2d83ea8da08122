-- Whether a route ($1) is paused. Whoever else changes that waits.
insert into {route_state} as r (route) values ($1)
on conflict (route) do update set route = excluded.route
returning r.paused_at is not null as paused
