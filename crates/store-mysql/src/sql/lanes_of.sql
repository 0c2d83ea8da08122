-- The lanes of a session, kept from every settle until the transaction ends. ?1 route, ?2 session
select lane from {lane} where route = ?1 and session = ?2 for update
