-- The routes that have something live, by their index alone: from one to the next.
select distinct route from {outbox} force index ({open_index}) where live in (1, 2)
