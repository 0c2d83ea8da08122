-- How large a statement may be.
select cast(@@max_allowed_packet as binary)
