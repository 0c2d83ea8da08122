-- Frees lanes that a session holds. Their fence stays until the next owner. ?1 route, ?2 session, ?3 [lane, …] or null for all
update {lane} set session = null
where route = ?1 and session = ?2
  and (?3 is null or lane in (select seq from {seqs:3} as given))
