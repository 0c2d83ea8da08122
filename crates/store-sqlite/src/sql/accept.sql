-- Marks an event as seen by a consumer; changes no row when it was. ?1 consumer, ?2 event id, ?3 now or null
insert into {inbox} (consumer, event_id, accepted_at) values (?1, ?2, coalesce(?3, {now}))
on conflict do nothing
