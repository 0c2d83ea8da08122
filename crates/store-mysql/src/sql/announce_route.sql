-- What dead entries do to their key on a route, as its relay says. Nearly always that is known, and no row is locked then.
-- ?1 route, ?2 on_dead or null
insert into {route_state} (route, on_dead)
select said.route, said.on_dead from (select ?1 as route, ?2 as on_dead) as said
where not exists (select 1 from {route_state} as known where known.route = ?1 and known.on_dead <=> ?2)
on duplicate key update on_dead = ?2
