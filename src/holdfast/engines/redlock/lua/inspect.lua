-- Who has the lock here and who waits.
-- ARGV: RUN, '', LIMIT (how many waiters to list)
-- Returns {fence, dirty, clean, open, how many wait, {"CHANNEL ID OWNER", ms since, ...}}, and of a holder also
-- its id, owner, ms since when, ms left.
local now_ms = clock_ms()
local listed = {}
if tonumber(ARGV[3]) > 0 then
  listed = redis.call('ZRANGE', waiters, 0, tonumber(ARGV[3]) - 1, 'WITHSCORES')
end
for at = 2, #listed, 2 do
  listed[at] = math.max(0, now_ms - listed[at])
end
local answer = {fence, dirty, clean, open, redis.call('ZCARD', waiters), listed}
if holder then
  local _, since_ms, owner = cmsgpack.unpack(held)
  for _, value in ipairs({holder, owner, math.max(0, now_ms - since_ms), redis.call('PTTL', lock)}) do
    answer[#answer + 1] = value
  end
end
return answer
