-- The entries that a filter means, as an operator sees them. What is null does not narrow.
-- ?1 standing, ?2 [stored status, …], ?3 route, ?4 type, ?5 key, ?6 tenant, ?7 how the error begins, ?8 since, ?9 until, ?10 after,
-- ?11 [event id, …], ?12 now or null, ?13 whether the standing is more than the status, ?14 limit, ?15 whether only what waits
-- The limit is put on the rows themselves where the status says it all: then nothing behind it is looked at.
with
{heads},
{readers},
meant as (
  select * from {outbox}
  where {scope} and (?3 is null or route = ?3) and (?4 is null or type = ?4) and (?5 is null or key = ?5)
    and (?6 is null or tenant = ?6) and (?7 is null or substr(last_error || ': ', 1, length(?7)) = ?7)
    and (?8 is null or coalesce(settled_at, created_at) >= ?8) and (?9 is null or coalesce(settled_at, created_at) < ?9)
    and (?10 is null or seq > ?10) and (?15 is null or due_at > coalesce(?12, {now}))
  order by seq
  limit iif(?13, -1, ?14)),
seen as (
  select meant.*, head.seq as blocked, reader.handed is not null as held,
    coalesce(reader.handed >= meant.seq, 0) and coalesce(meant.due_at <= coalesce(?12, {now}), 1) as handed
  from meant
  left join heads as head on head.route = meant.route and head.key = meant.key and head.seq < meant.seq
    and meant.status in ('pending', 'retrying')
  left join readers as reader on reader.route = meant.route and reader.lane = meant.lane
    and meant.status in ('pending', 'retrying')),
matching as (
  select *, case when blocked is not null then 'blocked' when handed then 'in_flight' else status end as standing
  from seen)
