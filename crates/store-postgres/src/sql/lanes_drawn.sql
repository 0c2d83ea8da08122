-- The last seq that was drawn. Who may not look at the sequence looks once more at what was read, as when somebody is writing.
(select case when has_sequence_privilege(s, 'select, usage') then pg_sequence_last_value(s) end
    from (select pg_get_serial_sequence('{outbox}', 'seq')::regclass) as of(s))
