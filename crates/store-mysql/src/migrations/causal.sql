-- Only where causal order is on: claims by clock stamp, those without one last.
create index {causal_index} on {outbox} (part, route, at, hlc_order, created_at, seq);
