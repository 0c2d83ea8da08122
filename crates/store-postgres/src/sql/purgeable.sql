-- What a purge would delete; changes nothing.
select count(*) as purged
from (
    (
        select seq from {outbox}
        where status = 'delivered'
            and settled_at <= coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
        order by settled_at
        limit $3
    ) union all (
        select seq from {outbox}
        where status = 'discarded'
            and settled_at <= coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
        order by settled_at
        limit $3
    )
    limit $3
) as found
