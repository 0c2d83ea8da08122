-- ?1 run
delete from {relay} where run = ?1
