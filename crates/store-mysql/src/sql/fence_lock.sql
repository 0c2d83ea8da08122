-- Takes the row of a lane's owner, unless another transaction is at it: that one remembers the owner, and nobody waits for
-- the end of somebody else's handler. ?1 consumer, ?2 lane
select cast(fence as binary) from {inbox_fence} where consumer = ?1 and lane = ?2 for update skip locked
