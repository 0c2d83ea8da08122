-- How many sagas of a route have not ended, up to a limit. ?1 route, ?2 limit
select count(*) from (select 1 from {saga} where route = ?1 and ended_at is null limit ?2) as unended
