-- Sagas, oldest first; what is null does not narrow. ?1 status, ?2 name, ?3 kind and ?4 value of the subject,
-- ?5 time and ?6 id of the saga behind which the page begins, ?7 limit
select {saga_columns} from {saga} as saga
where (?1 is null or saga.status = ?1) and (?2 is null or saga.name = ?2)
  and (?3 is null or saga.subject_kind = ?3) and (?4 is null or saga.subject_value = ?4)
  and (?5 is null or saga.created_at > ?5 or (saga.created_at = ?5 and saga.id > ?6))
order by saga.created_at, saga.id
limit ?7
