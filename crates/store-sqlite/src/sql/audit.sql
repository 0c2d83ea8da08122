-- The newest audit records. ?1 limit
select seq, at, kind, actor, route, event_id, detail from {audit} order by seq desc limit ?1
