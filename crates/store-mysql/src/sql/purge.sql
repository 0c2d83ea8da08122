-- Deletes what was settled long enough ago, never the dead; the oldest of a route and a status first, along the index.
-- ?1 now or null, ?2 age in microseconds, ?3 limit, ?4 number of the status, ?5 route
delete from {outbox} where part = ?4 and route = ?5 and at <= coalesce(?1, {now}) - ?2 order by part, route, at limit ?3
