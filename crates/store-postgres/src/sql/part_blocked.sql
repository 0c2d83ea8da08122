-- The keys of the dead, in their lanes behind the first of them.
    select h.route, h.lane, greatest(min(h.seq), $10::bigint) as after, 9223372036854775807 as upto, array_agg(h.key::text) as keys
    from heads as h
    group by h.route, h.lane