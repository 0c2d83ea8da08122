-- Who holds which lane. ?1 route
select lane, session, fence from {lane} where route = ?1 order by lane for update
