-- Only where causal order is on: claims by clock stamp, those without one last.
create index {causal_index} on {outbox} (live, route, due_at, hlc_order, created_at, seq);
