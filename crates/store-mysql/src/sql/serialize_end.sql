-- Leaves no row behind: the lock stays until the transaction ends. ?1 route, ?2 key
delete from {serial} where route = ?1 and `key` = ?2
