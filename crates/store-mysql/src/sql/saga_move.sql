-- Where sagas are now. ?1 now, ?2 [[id, version before, status, dead, due, body, ended], …]
update json_table(?2, '$[*]' columns (id varchar(64) {text} path '$[0]', version bigint path '$[1]', status varchar(64) {text} path '$[2]',
  dead bigint path '$[3]', due bigint path '$[4]', body longtext {text} path '$[5]', ended tinyint path '$[6]')) as moved
straight_join {saga} as saga force index (primary) on saga.id = cast(moved.id as binary) and saga.version = moved.version
set
  saga.status = moved.status,
  saga.dead = moved.dead,
  saga.due_at = moved.due,
  saga.body = moved.body,
  saga.version = saga.version + 1,
  saga.updated_at = ?1,
  saga.ended_at = if(moved.ended, ?1, saga.ended_at)
