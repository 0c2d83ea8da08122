-- An event on every route that carries it. ?1 event id
select {columns} from {outbox} where event_id = ?1 order by route
