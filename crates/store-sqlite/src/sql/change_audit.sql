-- The audit rows of what an operator changes. ?1 now or null, ?2 kind, ?3 actor, ?4 [seq, …]
insert into {audit} (at, kind, actor, route, event_id)
select coalesce(?1, {now}), ?2, ?3, route, event_id
from {outbox}
where seq in (select value from json_each(?4))
order by seq
