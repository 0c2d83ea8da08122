-- For the relay's own calls. Each is the head of an index or a few rows by their number, and must be planned so
-- with any statistics: old ones, those of an empty table, and generic plans included.
set local enable_seqscan = off;
set local enable_bitmapscan = off;
set local enable_sort = off;
set local enable_hashjoin = off;
set local enable_mergejoin = off;
-- A plan that has to do one of these after all looks so expensive that it would be compiled.
set local jit = off;
-- All of that makes the plan the same whatever the values are: it need not be made anew for each call.
set local plan_cache_mode = force_generic_plan;
