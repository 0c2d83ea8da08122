-- Gives dead entries up for good, but for the steps of sagas that have not ended: these go with their saga.
-- The rows are locked in the order of staging, so that two operators never deadlock: the second waits, finds
-- them not dead any more and changes nothing. The audit records are counted, and so written, before the change.
with picked as materialized (
    select seq, route, event_id, group_id, {lane_of} as lane
    from {outbox}
    where status = 'dead' and ($1::uuid[] is null or event_id = any ($1)) and ($2::text is null or route = $2)
        and ($3::text is null or type = $3) and ($4::text is null or key = $4)
        and ({plain} or not exists (select from {saga} as s where s.id = group_id and s.ended_at is null))
    order by seq
    for update
), audited as (
    insert into {audit} (at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, detail)
    select coalesce($6, statement_timestamp()), 'discarded', $5, p.route, p.event_id, s.id, s.subject_kind, s.subject_value, ''
    from picked as p
    left join {saga} as s on s.id = p.group_id
    returning 1
), marked as materialized (
    select l.route, l.lane from {lane} as l
    where (l.route, l.lane) in (select p.route, p.lane from picked as p)
    order by l.route, l.lane
    for no key update
), revised as (
    -- Readers of these lanes look at them anew.
    update {lane} as l set revision = l.revision + 1
    from marked as m where l.route = m.route and l.lane = m.lane
), changed as (
    update {outbox} as o
    set status = 'discarded', settled_at = coalesce($6, statement_timestamp())
    where (select count(*) from audited) > 0 and o.seq = any (array(select seq from picked))
    returning 1
)
select count(*) as changed from changed
