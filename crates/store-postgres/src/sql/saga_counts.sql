-- Sagas per status and route: how many, how many of these are overdue, and how long the oldest has not changed.
select s.status, count(*),
    count(*) filter (where s.ended_at is null and s.deadline_at <= coalesce($1, statement_timestamp())),
    min(s.updated_at), coalesce($1, statement_timestamp()), s.route
from {saga} as s
group by s.status, s.route
