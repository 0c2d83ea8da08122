-- ?1 now or null, ?2 actor, ?3 how many
insert into {audit} (at, kind, actor, detail) values (coalesce(?1, {now}), 'inbox_purged', ?2, ?3)
