-- The lanes of a route; made once. ?1 route
insert ignore into {lane} (route, lane)
with recursive number as (select 0 as lane union all select lane + 1 from number where lane < 63)
select ?1, lane from number
