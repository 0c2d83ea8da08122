-- The entries that a filter means, as an operator sees them. What is null does not narrow.
-- ?1 standing, ?2 [number of a stored status, …], ?3 route, ?4 type, ?5 key, ?6 tenant, ?7 how the error begins, ?8 since, ?9 until,
-- ?10 after, ?11 [event id in hex or seq, …], ?12 now or null, ?13 limit of the rows, ?14 limit, ?15 whether only what waits,
-- ?16 null
-- The limit is put on the rows themselves where the status says it all: then nothing behind it is looked at.
with
{heads},
{readers},
meant as (
  select entry.* from {scope}
  where (?3 is null or entry.route = ?3) and (?4 is null or entry.type = ?4) and (?5 is null or entry.`key` = ?5)
    and (?6 is null or entry.tenant = ?6)
    and (?7 is null or left(concat(entry.last_error, ': '), char_length(?7)) = ?7)
    and (?8 is null or coalesce(entry.settled_at, entry.created_at) >= ?8)
    and (?9 is null or coalesce(entry.settled_at, entry.created_at) < ?9)
    and (?10 is null or entry.seq > ?10) and (?15 is null or entry.due_at > coalesce(?12, {now}))
  order by entry.seq
  limit ?13),
seen as (
  select meant.*, head.seq as blocked, reader.handed is not null as held,
    coalesce(reader.handed >= meant.seq, 0) and coalesce(meant.due_at <= coalesce(?12, {now}), 1) as handed
  from meant
  left join heads as head on head.route = meant.route and head.`key` = meant.`key` and head.seq < meant.seq
    and meant.status in ('pending', 'retrying')
  left join readers as reader on reader.route = meant.route and reader.lane = meant.lane
    and meant.status in ('pending', 'retrying')),
matching as (
  select seen.*,
    case when blocked is not null then 'blocked' when handed then 'in_flight' else cast(status as char) end as standing
  from seen)
