-- Waits for the transaction that has locked this key, and makes the next one wait for this transaction's end. A statement of
-- its own: the number of an entry is drawn before anything that its INSERT could wait for. ?1 route, ?2 key
insert into {serial} (route, `key`) values (?1, ?2) on duplicate key update route = values(route)
