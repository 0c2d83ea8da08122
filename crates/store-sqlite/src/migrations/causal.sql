-- Only where causal order is on: claims by clock stamp, those without one last.
create index if not exists {causal_index}
  on {outbox} (route, coalesce(hlc, 9223372036854775807), created_at, seq)
  where due_at is null and {live};
