-- The lanes that are held, as far as they were read.
    select r.route, r.lane, coalesce($10::bigint, -9223372036854775808) as after, r.handed as upto, null::text[] as keys
    from readers as r
    where $3::text is null or r.route = $3