-- The newest owners of these lanes that a consumer has seen. A plain read: nobody waits here for who remembers an owner.
-- $1 consumer, $2 lanes
select lane, fence::text, stream, position::text from {inbox_fence}
where consumer = $1::text and lane = any($2::text[])
