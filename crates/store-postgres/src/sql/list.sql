-- Entries that match, oldest first. A filter that is null does not narrow.
select {columns}
from {outbox}
where ($1::text is null or status = $1::text::{status}) and ($2::text is null or route = $2)
    and ($3::text is null or type = $3) and ($4::text is null or key = $4)
order by seq
limit $5
