-- The newest owners of these lanes that a consumer has seen. ?1 consumer, ?2 lanes as JSON
select lane, cast(fence as text), stream, cast(position as text) from {inbox_fence}
where consumer = ?1 and lane in (select value from json_each(?2))
