-- Ends a session; its lanes are free with it.
with forgotten as (
    delete from {lane_handed} where route = $1 and session = $2
)
delete from {lane_session} where route = $1 and session = $2
