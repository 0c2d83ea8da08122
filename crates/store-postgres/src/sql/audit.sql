-- The newest audit records that match, newest first, along the primary key.
-- $1 limit, $2 only below this one or null, $3 kinds or null, $4 actor or null, $5 since or null
select seq, at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail from {audit}
where seq < coalesce($2, 9223372036854775807)
    and ($3::text[] is null or kind = any ($3::text[]))
    and ($4::text is null or actor = $4)
    and ($5::timestamptz is null or at >= $5)
order by seq desc
limit $1
