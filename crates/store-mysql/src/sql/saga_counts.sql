-- Sagas per status and route: how many, how many of these are overdue, and since when the oldest has not changed. ?1 now or null
select status, count(*), cast(coalesce(sum(ended_at is null and deadline_at <= coalesce(?1, {now})), 0) as signed),
  min(updated_at), coalesce(?1, {now}), route
from {saga}
group by status, route
