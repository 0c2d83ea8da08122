-- The lanes of a route; made once. ?1 route
with recursive number (lane) as (select 0 union all select lane + 1 from number where lane < 63)
insert into {lane} (route, lane) select ?1, lane from number
where true
on conflict do nothing
