-- MariaDB has a mode in which a value without bytes is null: a payload may have none.
insert into {outbox} (event_id, route, type, `key`, payload_bytes, content_type, headers, tenant, correlation_id,
  causation_id, execution_id, occurred_at, priority, group_id, hlc, max_attempts, due_at)
values (?1, ?2, ?3, ?4, coalesce(?5, repeat('-', 0)), ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, {now} + ?17)
on duplicate key update seq = seq + last_insert_id(0)
