-- Whether a filter means `entry`, as an operator sees it. What is null does not narrow.
-- ?1 standing, ?2 [stored status, …], ?3 route, ?4 type, ?5 key, ?6 tenant, ?7 how the error begins, ?8 since, ?9 until, ?10 after,
-- ?11 [event id, …], ?12 now or null, ?13 [lane, …] in which its key can be, ?14 limit, ?15 whether only what waits
-- The standing comes last: it asks other tables.
(entry.status in (select value from json_each(?2)) and (?3 is null or entry.route = ?3) and (?4 is null or entry.type = ?4)
  and (?5 is null or entry.key = ?5) and (?6 is null or entry.tenant = ?6)
  and (?7 is null or substr(entry.last_error || ': ', 1, length(?7)) = ?7)
  and (?8 is null or coalesce(entry.settled_at, entry.created_at) >= ?8)
  and (?9 is null or coalesce(entry.settled_at, entry.created_at) < ?9)
  and (?10 is null or entry.seq > ?10) and (?15 is null or entry.due_at > coalesce(?12, {now}))
  and (?1 is null or {standing} = ?1))
