-- The oldest sessions share the lanes evenly, the remainder goes to the oldest; who comes after them waits. Takes free
-- lanes up to the share, each under the next fence. All lanes of the session come back, with the share beside them.
-- Of a paused route nobody is to have any. How many share is the lowest that any of them says: if each went by its own, one would leave lanes that nobody takes.
with standing as (
    select session, row_number() over (order by rank) - 1 as place, least(count(*) over (), min(shares) over ()) as sharing
    from {lane_session}
    where route = $1
), mine as materialized (
    select case
        when exists (select from {route_state} where route = $1 and paused_at is not null) then 0
        when place < sharing then 64 / sharing + (place < 64 % sharing)::integer else 0 end as share
    from standing
    where session = $2
), held as materialized (
    select lane, fence from {lane} where route = $1 and session = $2
), taken as (
    update {lane} as l
    set session = $2,
        -- Never used twice, even when a crash forgets it: at least the time in microseconds.
        fence = greatest(l.fence + 1, (extract(epoch from coalesce($3, statement_timestamp())) * 1000000)::bigint)
    where l.route = $1 and l.lane = any (array(
        select f.lane from {lane} as f
        where f.route = $1 and not exists (
            select from {lane_session} as s where s.route = f.route and s.session = f.session)
        order by f.lane
        limit greatest((select share from mine) - (select count(*) from held), 0)))
        -- A share that a crash forgets is forgotten with its session; a death ($4) is not to be.
        and ($4 or (select set_config('synchronous_commit', 'off', true)) is not null)
    returning l.lane, l.fence
)
select lane, fence, (select share from mine)::bigint as share
from (select lane, fence from held union all select lane, fence from taken) as own
order by lane
