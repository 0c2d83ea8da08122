-- Where sagas are now. ?1 now, ?2 [[id, version before, status, dead, due, body, ended], …]
with change (fields) as materialized (select value from json_each(?2))
update {saga} as saga set
  status = fields ->> 2,
  dead = fields ->> 3,
  due_at = fields ->> 4,
  body = fields ->> 5,
  version = saga.version + 1,
  updated_at = ?1,
  ended_at = iif(fields ->> 6, ?1, saga.ended_at)
from change
where saga.id = fields ->> 0 and saga.version = fields ->> 1
