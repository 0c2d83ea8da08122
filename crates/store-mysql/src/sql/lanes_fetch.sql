-- Entries that are not settled, by their rows. ?1 route
select {columns} from {outbox} force index (primary)
where seq in ({list}) and route = ?1 and live_lane is not null and {plain}
