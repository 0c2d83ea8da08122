-- The entries that a filter means, as an operator sees them. What is null does not narrow.
-- $1 standing if it is more than the status, $2 how many entries of each part of an index are looked at, $3 route, $4 type, $5 key,
-- $6 tenant, $7 how the error begins, $8 since, $9 until, $10 after, $11 ids, $12 to $14 route, lane and how far was read of each
-- lane that is held, $15 now, $16 limit, $17 whether only what waits for its time. What lanes hold comes as values: a server
-- that follows another one does not have that table, and is looked at all the same.
-- The scope says how they are found: `meant` are the entries before their standing is known, `heads` the dead that block them.
with recursive {scope}, readers as materialized (
    select r.route, r.lane, r.handed
    from unnest($12::text[], $13::bigint[], $14::bigint[]) as r (route, lane, handed)
), seen as (
    select m.*, h.seq as blocked, r.route is not null as held,
        coalesce(m.due_at <= coalesce($15::timestamptz, statement_timestamp()), true) as due,
        coalesce(r.handed >= m.seq, false) as passed
    from meant as m
    left join heads as h on h.route = m.route and h.key = m.key and h.seq < m.seq and m.status > 'in_flight'
    -- Steps of sagas are in no lane.
    left join readers as r on r.route = m.route and r.lane = m.lane and m.status > 'in_flight' and m.plain
), matching as (
    select s.*,
        case when s.blocked is not null then 'blocked' when s.passed and s.due then 'in_flight' else s.status::text end
            as standing
    from seen as s
)
