-- $1 which rows, $2 which statuses they must still have, $3 actor, $4 now, $5 kind of the audit records, $6 whether no relay may
-- hold their lane, $7 how many audit records to tell. The rows are locked in the order of staging, so that two operators never deadlock: the second waits, finds
-- them changed and leaves them alone. The audit records are counted, and so written, before the change.
with picked as materialized (
    select o.seq, o.route, o.event_id, o.group_id, {lane_of_o} as lane
    from {outbox} as o
    where o.seq = any ($1::bigint[]) and o.status = any ($2::text[]::{status}[])
        and not ($6::boolean and exists (
            select from {lane} as l
            join {lane_session} as s on s.route = l.route and s.session = l.session
            where l.route = o.route and l.lane = {lane_of_o}))
    order by o.seq
    for update
), audited as (
    insert into {audit} (at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, detail)
    select coalesce($4, statement_timestamp()), $5, $3, p.route, p.event_id, s.id, s.subject_kind, s.subject_value, ''
    from picked as p
    left join {saga} as s on s.id = p.group_id
    order by p.seq
    returning seq, at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail
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
