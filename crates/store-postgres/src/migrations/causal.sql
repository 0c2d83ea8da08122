-- Due at once, in causal order: by stamp, entries without one last. Only with the option `causal_order`.
create index if not exists {causal_index} on {outbox} (route, coalesce(hlc, 9223372036854775807), created_at, seq)
    with (deduplicate_items = off) where due_at is null and status >= 'in_flight';
