-- Who may be writing, if that is asked ($6). Who holds this lock may have staged: an INSERT takes it before it draws its seq,
-- and keeps it to its end. Claims and settles of relays take it too, and say by a lock of their own, which they never
-- wait for, that they are none of these.
array(
    select (split_part(virtualtransaction, '/', 1)::bigint << 32) | split_part(virtualtransaction, '/', 2)::bigint
    from pg_locks
    where $6 and granted and database = (select oid from pg_database where datname = current_database())
        and (locktype = 'relation' and mode = 'RowExclusiveLock' and relation = '{outbox}'::regclass
            or locktype = 'advisory' and classid = 7458911 and objid = '{outbox}'::regclass and objsubid = 2)
    group by virtualtransaction
    having bool_and(locktype = 'relation'))
