-- How an operator sees `entry`.
(case when {ended} or status = 'in_flight' then entry.status
  when {blocked} is not null then 'blocked'
  when {handed} then 'in_flight'
  else entry.status end)
