-- Any batch of lanes. The rows are locked first, so that exactly what is audited dies. A second end is refused by the
-- status, a second retry, or one of before a requeue, only by the attempts. A release changes nothing but the reason why the entry waits. Waits for the disk if there are dead ($10):
-- nobody would try these again. Each row is checked against the fence of its lane, which is a place in an array: a join
-- would try all lanes for each row. The subselect hides the statuses and `|| ''` the route: else the planner may read all of an
-- index that has one of these in it, not the rows.
with me as materialized (
    select session from {lane_session} where route = $1 and session = $2 for key share
), held as materialized (
    select array_agg(case when session = (select session from me) then fence end order by lane) as fences
    from {lane}
    where route = $1
), verdicts as materialized (
    select * from unnest($3::bigint[], $4::bigint[], $5::integer[], $6::text[], $7::bigint[], $8::text[])
        as v(seq, fence, attempts, verdict, after, error)
), mine as materialized (
    select o.seq, o.event_id, v.fence, v.attempts, v.verdict, v.after, v.error
    from verdicts as v
    cross join lateral (
        select o.seq, o.event_id
        from {outbox} as o
        where o.seq = v.seq and o.route || '' = $1
            and o.status = any ((select array['pending', 'retrying']::{status}[])::{status}[])
            and (select fences from held)[{lane_of_o} + 1] = v.fence
            and (v.verdict <> 'retry' or o.attempts + 1 = v.attempts)
        for update
    ) as o
    where $10 or (select set_config('synchronous_commit', 'off', true)) is not null
), audited as (
    insert into {audit} (at, kind, actor, route, event_id, detail)
    select coalesce($9, statement_timestamp()), 'dead', $11, $1, m.event_id, m.error
    from mine as m where m.verdict = 'dead'
    returning 1
), deleted as (
    delete from {outbox} as o using mine as m where o.seq = m.seq and m.verdict = 'deleted'
), updated as (
    update {outbox} as o
    set status = case m.verdict when 'retry' then 'retrying' else m.verdict end,
        attempts = greatest(o.attempts, m.attempts),
        due_at = case when m.verdict = 'retry'
            then coalesce($9, statement_timestamp()) + m.after * interval '1 microsecond' end,
        owner = null,
        last_error = m.error,
        last_attempt_at = coalesce($9, statement_timestamp()),
        settled_at = case when m.verdict <> 'retry' then coalesce($9, statement_timestamp()) end
    from mine as m
    where o.seq = m.seq and m.verdict in ('delivered', 'retry', 'dead')
        -- Counting the audit records first makes them be written first.
        and (select count(*) from audited) >= 0
), noted as (
    -- A probe that is in vain for the same reason writes nothing.
    update {outbox} as o set last_error = m.error
    from mine as m
    where o.seq = m.seq and m.verdict = 'release' and m.error is not null
        and o.last_error is distinct from m.error
)
select count(*) as changed,
    case when count(*) < cardinality($3) then array_agg(seq) end as seqs,
    case when count(*) < cardinality($3) then array_agg(fence) end as fences
from mine
