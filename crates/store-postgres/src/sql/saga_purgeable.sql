-- What a purge of sagas would delete; changes nothing. $1 now or null, $2 age in microseconds, $3 limit
select count(*) as purged
from (
    select from {saga}
    where ended_at <= coalesce($1, statement_timestamp()) - $2 * interval '1 microsecond'
    limit (select $3::bigint)
) as found
