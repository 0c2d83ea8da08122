-- Remembers an owner of a lane, never an earlier one. Whoever finds another transaction at it leaves it to that one:
-- the lock is there so that nobody waits for the end of somebody else's handler. It is one of this table: another in the same
-- database may have the same consumer and lane.
-- $1 consumer, $2 lane, $3 fence, $4 stream, $5 position, $6 now or null
insert into {inbox_fence} as known (consumer, lane, fence, stream, position, seen_at)
select $1::text, $2::text, $3::bigint, $4::text, $5::bigint, coalesce($6::text::timestamptz, statement_timestamp())
where pg_try_advisory_xact_lock(hashtextextended('pillarbox fence ' || $1::text || ' ' || $2::text, '{inbox_fence}'::regclass::oid::bigint))
on conflict (consumer, lane) do update
set fence = excluded.fence, stream = excluded.stream, position = excluded.position, seen_at = excluded.seen_at
where excluded.fence > known.fence
