-- How many entries match, by one of their fields, the largest group first. ?17 the field, ?18 limit of the groups
{matching}select value, count(*) as entries
from (
  select case ?17 when 'type' then type when 'key' then `key` when 'tenant' then tenant
    when 'type_error'
      then concat(cast(type as binary), char(31), coalesce(cast(substring_index(last_error, ': ', 1) as binary), ''))
    else cast(substring_index(last_error, ': ', 1) as binary) end as value
  from matching
  where ?1 is null or standing = ?1) as valued
group by value
order by entries desc, value
limit ?18
