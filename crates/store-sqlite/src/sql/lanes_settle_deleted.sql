-- Deliveries that are not kept: like lanes_settle_delivered.sql.
-- ?1 now or null, which nothing here needs, ?2 [seq, …], ?3 route, ?4 session, ?5 fence
delete from {outbox} not indexed
where seq in (select value from json_each(?2)) and +route = ?3 and {unsettled}
  and +lane in (select lane from {lane} where route = ?3 and session = ?4 and fence = ?5)
