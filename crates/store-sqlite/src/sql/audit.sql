-- The newest audit records that match, newest first, along the primary key.
-- ?1 limit, ?2 only below this one or null, ?3 [kind, …], ?4 actor or null, ?5 since or null
select seq, at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail
from {audit}
where seq < coalesce(?2, 9223372036854775807)
  and (json_array_length(?3) = 0 or kind in (select value from json_each(?3)))
  and (?4 is null or actor = ?4)
  and (?5 is null or at >= ?5)
order by seq desc
limit ?1
