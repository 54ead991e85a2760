-- Take the lock from whoever has it here, and note that it was abandoned.
-- ARGV: RUN, ''
-- Returns 1, or 0 if nobody had it.
if not holder then
  return 0
end
redis.call('DEL', lock)
dirty, open = math.max(dirty, fence), 0
save_trace()
wake_next()
return 1
