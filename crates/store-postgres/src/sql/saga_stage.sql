-- Stages a saga as the next generation of its subject. Of two at once the second waits, conflicts, and is asked again.
insert into {saga} (id, name, route, subject_kind, subject_value, generation, status, body, created_at, updated_at,
    deadline_at, due_at)
select $1, $2, $3, $4, $5,
    coalesce((select max(s.generation) from {saga} as s
        where s.name = $2 and s.subject_kind = $4 and s.subject_value = $5), 0) + 1,
    $6, $7, statement_timestamp(), statement_timestamp(),
    statement_timestamp() + $8::bigint * interval '1 microsecond',
    case when $9 then statement_timestamp() + $8::bigint * interval '1 microsecond' end
on conflict do nothing
returning generation
