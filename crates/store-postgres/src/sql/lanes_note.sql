-- Notes how far a session has read, before anything of that is delivered: who buries it counts an attempt for what may
-- have been in flight. Nobody waits for the disk: after a crash of the server all sessions are gone.
with me as materialized (
    -- Who buries this session waits for this statement, and sees what it noted; or it is too late here.
    select session from {lane_session} where route = $1 and session = $2 for key share
), before as materialized (
    select handed from {lane_handed} where route = $1 and session = $2 order by handed desc limit 1
), noted as (
    insert into {lane_handed} (route, session, handed)
    select $1, me.session, $3
    from me
    where $3 > coalesce((select handed from before), -1)
        and (select set_config('synchronous_commit', 'off', true)) is not null
    on conflict do nothing
), forgotten as (
    delete from {lane_handed}
    where route = $1 and session = (select session from me) and handed = (select handed from before) and handed < $3
)
select exists (select from me)
