delete from {relay} where run = $1
