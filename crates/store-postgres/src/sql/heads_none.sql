-- What is at its end waits for nobody.
heads as materialized (
    select null::text as route, null::text as key, null::bigint as seq where false
)