-- One saga.
select coalesce($2, statement_timestamp()), {saga_columns} from {saga} as s where s.id = $1
