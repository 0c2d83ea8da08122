-- How many entries match, by one of their fields, the largest group first. $18 the field, $19 limit of the groups
{matching}select case $18::text when 'type' then type when 'key' then key when 'tenant' then tenant
        when 'type_error' then type || chr(31) || coalesce(split_part(last_error, ': ', 1), '')
        else split_part(last_error, ': ', 1) end as value,
    count(*) as entries
from matching
where $1::text is null or standing = $1
group by 1
order by 2 desc, 1
limit $19
