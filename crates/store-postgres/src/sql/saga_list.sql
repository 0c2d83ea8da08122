-- Sagas, oldest first; what is null does not narrow. $1 status, $2 name, $3 kind and $4 value of the subject,
-- $5 time and $6 id of the saga behind which the page begins, $7 limit
select statement_timestamp(), {saga_columns}
from {saga} as s
where ($1::text is null or s.status = $1) and ($2::text is null or s.name = $2)
    and ($3::text is null or s.subject_kind = $3) and ($4::text is null or s.subject_value = $4)
    and ($5::timestamptz is null or (s.created_at, s.id) > ($5, $6::text))
order by s.created_at, s.id
limit $7
