-- The next entries of held lanes, and what is unsettled between floor and cursor: from one snapshot.
-- Floors ($3), cursors ($4) and limits ($5) have a place for each lane, null for those that were not asked for.
-- The first row tells about the lanes, in the place of a type: a column of its own would be null in all the others.
-- These are entries, and go to the reader as they are found, because keeping them for a second look costs more than
-- finding them. Of each lane only the head of its part of the index is read, and `offset 0` keeps it so: else the planner
-- may read all of the index once.
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
                    and seq > h.floor and seq <= h.cursor
                offset 0
            ) as e),
        -- Who holds this lock may have staged: an INSERT takes it before it draws its seq, and keeps it to its end.
        -- Claims and settles of relays take it too, and say by a lock of their own, which they never wait for, that they
        -- are none of these.
        'writers', array(
            select (split_part(virtualtransaction, '/', 1)::bigint << 32) | split_part(virtualtransaction, '/', 2)::bigint
            from pg_locks
            where $6 and granted and database = (select oid from pg_database where datname = current_database())
                and (locktype = 'relation' and mode = 'RowExclusiveLock' and relation = '{outbox}'::regclass
                    or locktype = 'advisory' and classid = 7458911 and objid = '{outbox}'::regclass and objsubid = 2)
            group by virtualtransaction
            having bool_and(locktype = 'relation')),
        -- Who may not look at the sequence looks once more at what was read, as when somebody is writing.
        'drawn', (
            select case when has_sequence_privilege(s, 'select, usage') then pg_sequence_last_value(s) end
            from (select pg_get_serial_sequence('{outbox}', 'seq')::regclass) as of(s)),
        'now', (extract(epoch from statement_timestamp()) * 1000000)::bigint
    )::text,
    {unread}
union all
select e.*
from held as h
cross join lateral (
    select {read}, h.lane
    from {outbox}
    where route = $1 and {lane_of} = h.lane and status > 'in_flight' and seq > h.cursor
    order by seq
    limit h.amount
) as e
