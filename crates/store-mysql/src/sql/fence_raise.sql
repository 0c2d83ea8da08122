-- Remembers an owner of a lane, never an earlier one. The fence is set last: the others are compared with the one before.
-- ?1 consumer, ?2 lane, ?3 fence, ?4 stream, ?5 position, ?6 now or null
insert into {inbox_fence} (consumer, lane, fence, stream, position, seen_at)
values (?1, ?2, ?3, coalesce(?4, repeat('-', 0)), ?5, coalesce(?6, {now}))
on duplicate key update
  stream = if(?3 > fence, values(stream), stream),
  position = if(?3 > fence, values(position), position),
  seen_at = if(?3 > fence, values(seen_at), seen_at),
  fence = greatest(fence, ?3)
