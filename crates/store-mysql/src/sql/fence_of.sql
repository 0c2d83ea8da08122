-- The newest owner of a lane that a consumer has seen. ?1 consumer, ?2 lane
select cast(fence as binary), stream, cast(position as binary) from {inbox_fence} where consumer = ?1 and lane = ?2
