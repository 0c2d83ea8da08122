-- Whether a saga is there, also for a transaction whose snapshot is older. ?1 id
select cast(1 as binary) from {saga} where id = ?1 lock in share mode
