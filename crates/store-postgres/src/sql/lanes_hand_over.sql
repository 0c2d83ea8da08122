-- Gives lanes up.
update {lane} set session = null where route = $1 and session = $2 and lane = any ($3::smallint[])
