-- The lanes that a session holds and their fences. They stay its own until the transaction ends. ?1 route, ?2 session
select lane, fence from {lane} where route = ?1 and session = ?2 lock in share mode
