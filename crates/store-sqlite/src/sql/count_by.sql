-- How many entries match, by one of their fields, the largest group first. ?16 the field, ?17 limit of the groups
select case ?16 when 'type' then type when 'key' then key when 'tenant' then tenant
    when 'type_error' then type || char(31) || coalesce(substr(last_error, 1, instr(last_error || ': ', ': ') - 1), '')
    else substr(last_error, 1, instr(last_error || ': ', ': ') - 1) end as value,
  count(*) as entries
from {outbox} as entry
where {each}
group by value
order by entries desc, value
limit ?17
