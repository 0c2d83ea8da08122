-- The entries that a filter means, as an operator sees them. What is null does not narrow.
-- $1 standing, $2 stored statuses, $3 route, $4 type, $5 key, $6 tenant, $7 how the error begins, $8 since, $9 until, $10 after, $11 ids,
-- $12 to $14 route, lane and how far was read of each lane that is held, $15 now, $16 whether the standing is more than the
-- status, $17 limit, $18 whether only what waits for its time. What lanes hold comes as values: a server that follows another
-- one does not have that table, and is looked at all the same.
-- The limit is put on the rows themselves where the status says it all: then nothing behind it is looked at.
with {heads}, readers as materialized (
    select r.route, r.lane, r.handed
    from unnest($12::text[], $13::bigint[], $14::bigint[]) as r (route, lane, handed)
), meant as (
    select o.*, {lane_of_o} as lane
    from {outbox} as o
    where o.status = any ($2::text[]::{status}[]) and ($11::uuid[] is null or o.event_id = any ($11))
        and ($3::text is null or o.route = $3) and ($4::text is null or o.type = $4)
        and ($5::text is null or o.key = $5) and ($6::text is null or o.tenant = $6)
        and ($7::text is null or starts_with(o.last_error || ': ', $7))
        and ($8::timestamptz is null or coalesce(o.settled_at, o.created_at) >= $8)
        and ($9::timestamptz is null or coalesce(o.settled_at, o.created_at) < $9)
        and ($10::bigint is null or o.seq > $10)
        and (not $18::boolean or o.due_at > coalesce($15::timestamptz, statement_timestamp()))
    order by o.seq
    limit case when $16::boolean then null else $17::bigint end
), seen as (
    select m.*, h.seq as blocked, r.route is not null as held,
        coalesce(r.handed >= m.seq, false) and coalesce(m.due_at <= coalesce($15, statement_timestamp()), true) as handed
    from meant as m
    left join heads as h on h.route = m.route and h.key = m.key and h.seq < m.seq and m.status > 'in_flight'
    -- Steps of sagas are in no lane.
    left join readers as r on r.route = m.route and r.lane = m.lane and m.status > 'in_flight' and {plain}
), matching as (
    select s.*,
        case when s.blocked is not null then 'blocked' when s.handed then 'in_flight' else s.status::text end as standing
    from seen as s
)
