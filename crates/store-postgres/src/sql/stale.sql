-- What a reap of one route would find, at most as much as it would take; changes nothing.
select least(count(*) filter (where leased), $4) as leased, least(count(*), $4) as found
from (
    (
        select status = 'in_flight' as leased
        from {outbox}
        where route = $1 and due_at is not null and due_at <= coalesce($2, statement_timestamp())
            and status >= 'in_flight'
            and (status = 'in_flight' or (attempts > 0 and {counted} >= coalesce(max_attempts, $3))) and ($5 or {plain})
        order by due_at nulls first, status, priority, seq
        limit (select $4::bigint)
    ) union all (
        select status = 'in_flight' as leased
        from {outbox}
        where route = $1 and due_at is null and status >= 'in_flight' and status < 'pending'
            and (status = 'in_flight' or (attempts > 0 and {counted} >= coalesce(max_attempts, $3))) and ($5 or {plain})
        order by due_at nulls first, status, priority, seq
        limit (select $4::bigint)
    )
) as stale
