-- Take the lock from whoever has it here, and note that it was abandoned.
-- ARGV: RUN, ''
-- Returns 1, or 0 if nobody had it.
--[[waiting.lua]]
if not holder then
  return 0
end
redis.call('DEL', lock)
dirty, open = math.max(dirty, fence), 0
save_trace()
wake(redis.call('ZPOPMIN', waiters)[1])
return 1
