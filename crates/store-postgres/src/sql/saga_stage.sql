-- Stages a saga as the next generation of its subject. Of two at once the second waits, conflicts, and is asked again.
insert into {saga} (id, name, route, subject_kind, subject_value, generation, status, body, created_at, updated_at,
    deadline_at, due_at)
select $1::text, $2::text, $3::text, $4::text, $5::text,
    coalesce((select max(s.generation) from {saga} as s
        where s.name = $2::text and s.subject_kind = $4::text and s.subject_value = $5::text), 0) + 1,
    $6::text, $7::text, statement_timestamp(), statement_timestamp(),
    statement_timestamp() + $8::bigint * interval '1 microsecond',
    statement_timestamp() + $9::bigint * interval '1 microsecond'
on conflict do nothing
returning generation::text
