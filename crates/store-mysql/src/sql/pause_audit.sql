-- The audit record of a pause or its end. ?1 now or null, ?2 route, ?3 actor, ?4 reason, ?5 kind
insert into {audit} (at, kind, actor, route, detail) values (coalesce(?1, {now}), ?5, ?3, ?2, ?4)
