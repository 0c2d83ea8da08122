-- What a requeue or discard would find. By id, also what is not dead is counted: it will be skipped. The dead steps of
-- sagas that have not ended are counted apart, with their sagas.
select count(*) filter (where status = 'dead') as dead, count(*) as entries,
    array_agg(distinct event_id) filter (where $1::uuid[] is not null) as known,
    count((select s.id from {saga} as s where s.id = group_id and s.ended_at is null))
        filter (where status = 'dead' and not {plain}) as steps,
    (array_remove(array_agg(distinct (select s.id from {saga} as s where s.id = group_id and s.ended_at is null))
        filter (where status = 'dead' and not {plain}), null))[1:10000] as sagas
from {outbox}
where (event_id = any ($1) or ($1 is null and status = 'dead')) and ($2::text is null or route = $2)
    and ($3::text is null or type = $3) and ($4::text is null or key = $4)
