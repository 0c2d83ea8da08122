-- Claims with their entries and sagas, as far as they still stand. The status is hidden as in
-- settle_delivered.sql.
select h.seq, h.fence, o.event_id, o.attempts, o.last_error, coalesce($3, statement_timestamp()), {saga_columns}
from unnest($1::bigint[], $2::bigint[]) as h(seq, fence)
left join {outbox} as o on o.seq = h.seq and o.fence = h.fence and o.status = (select 'in_flight'::{status})
left join {saga} as s on s.id = o.group_id
