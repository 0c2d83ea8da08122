-- What dead entries do to their key on a route, as its relay says. Nearly always that is known. ?1 route, ?2 on_dead or null
insert into {route_state} (route, on_dead) select ?1, ?2
where not exists (select 1 from {route_state} where route = ?1 and on_dead is ?2)
on conflict (route) do update set on_dead = excluded.on_dead
