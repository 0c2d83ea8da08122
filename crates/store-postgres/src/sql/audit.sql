-- The newest audit records, newest first.
select seq, at, kind, actor, route, event_id, detail from {audit} order by seq desc limit $1
