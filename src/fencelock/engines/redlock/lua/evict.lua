-- Take the lock from its holder here, and mark it as abandoned.
-- ARGV: RUN, ''
-- Returns 1, or 0 if there was no holder.
--[[waiting.lua]]
if not holder then
  return 0
end
redis.call('DEL', lock)
dirty, open = math.max(dirty, fence), 0
save_trace()
wake(redis.call('ZPOPMIN', waiters)[1])
return 1
