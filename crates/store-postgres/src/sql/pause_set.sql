-- Pauses a route ($1), or lets it go on if $6 is false; audited ($5) before.
with audited as (
    insert into {audit} (at, kind, actor, route, detail)
    values (coalesce($4, statement_timestamp()), $5, $2, $1, $3)
    returning 1
)
update {route_state}
set paused_at = case when $6 then coalesce($4, statement_timestamp()) end,
    paused_by = case when $6 then $2 end,
    pause_reason = case when $6 then $3 end
where route = $1 and (select count(*) from audited) > 0
