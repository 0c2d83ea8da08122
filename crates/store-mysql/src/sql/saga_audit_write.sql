-- The audit records of sagas, before anything that they explain.
-- ?1 now, ?2 actor, ?3 [[saga, kind, event id, step, detail, route, kind and value of the subject], …]
insert into {audit} (at, kind, actor, route, event_id, saga_id, subject_kind, subject_value, step, detail)
select ?1, kind, ?2, route, unhex(replace(event_id, '-', '')), saga_id, subject_kind, subject_value, step, detail
from json_table(?3, '$[*]' columns (place for ordinality, saga_id varchar(64) {text} path '$[0]', kind varchar(255) {text} path '$[1]',
  event_id varchar(36) {text} path '$[2]', step varchar(255) {text} path '$[3]', detail longtext {text} path '$[4]',
  route varchar(255) {text} path '$[5]', subject_kind varchar(255) {text} path '$[6]', subject_value varchar(255) {text} path '$[7]')) as record
order by place
