-- Sagas, oldest first; what is null does not narrow.
select statement_timestamp(), {saga_columns}
from {saga} as s
where ($1::text is null or s.status = $1) and ($2::text is null or s.name = $2)
    and ($3::text is null or s.subject_kind = $3) and ($4::text is null or s.subject_value = $4)
order by s.created_at, s.id
limit $5
