-- The next entries of held lanes, and what is unsettled between floor and cursor: from one snapshot. Steps of sagas are in
-- no lane.
-- Floors ($3), cursors ($4) and limits ($5) have a place for each lane, null for those that were not asked for.
-- The first row tells about the lanes, in the place of a type: a column of its own would be null in all the others.
-- These are entries, and go to the reader as they are found, because keeping them for a second look costs more than
-- finding them. Of each lane only a stretch of its part of the index is read. `order by` keeps it so, which no other index
-- has the answer to, and `offset 0`: else the planner may read all of what is open, once or for each lane.
with held as materialized (
    select l.lane, l.fence, l.revision, ($3::bigint[])[l.lane + 1] as floor, ($4::bigint[])[l.lane + 1] as cursor, ($5::bigint[])[l.lane + 1] as amount
    from {lane} as l
    where l.route = $1 and l.session = $2 and ($5::bigint[])[l.lane + 1] is not null
        and exists (select from {lane_session} where route = $1 and session = $2)
)
select json_build_object(
        'here', exists (select from {lane_session} where route = $1 and session = $2),
        'lanes', array(select json_build_array(h.lane, h.fence, h.revision) from held as h),
        'present', array(
            select e.seq
            from held as h
            cross join lateral (
                select seq from {outbox}
                where route = $1 and {lane_of} = h.lane and status > 'in_flight'
                    and seq > h.floor and seq <= h.cursor and {plain}
                order by seq
                offset 0
            ) as e),
        'writers', {writers},
        'drawn', {drawn},
        'now', (extract(epoch from statement_timestamp()) * 1000000)::bigint
    )::text,
    {unread}
union all
select e.*
from held as h
cross join lateral (
    select {read}, h.lane
    from {outbox}
    where route = $1 and {lane_of} = h.lane and status > 'in_flight' and seq > h.cursor and {plain}
    order by seq
    limit h.amount
) as e
