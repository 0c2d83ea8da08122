-- Forgets relays that died without a word. ?1 now or null, ?2 age in microseconds
delete from {relay} where seen_at <= coalesce(?1, {now}) - ?2
