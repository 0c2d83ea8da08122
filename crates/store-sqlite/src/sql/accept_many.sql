-- Marks events as seen by a consumer; changes no row for those that were. ?1 consumer, ?2 event ids as JSON, ?3 now or null
insert into {inbox} (consumer, event_id, accepted_at) select ?1, value, coalesce(?3, {now}) from json_each(?2)
-- Without a where, "on conflict" would be read as the condition of a join.
where true
on conflict do nothing
