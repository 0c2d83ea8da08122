-- The lanes of a route that is read by lanes for the first time.
insert into {lane} (route, lane) select $1, n from generate_series(0, 63) as n on conflict (route, lane) do nothing
