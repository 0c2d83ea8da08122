-- What a purge would delete; changes nothing.
select least(count(*), $3) as purged
from (
    (
        select seq from {outbox}
        where status = 'delivered'
            and settled_at <= coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
        order by settled_at
        limit (select $3::bigint)
    ) union all (
        select seq from {outbox}
        where status = 'discarded'
            and settled_at <= coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
        order by settled_at
        limit (select $3::bigint)
    )
) as found
