-- Who has the lock here and who waits.
-- ARGV: RUN, '', LIMIT (how many waiters to list)
-- Returns {fence, dirty, clean, open, number of waiters, {"CHANNEL ID OWNER", waiting for (ms), ...}}, and of a
-- holder also its id, owner, held for (ms), expires in (ms).
local now_ms = clock_ms()
local listed, waiting = {}, 0
local all = redis.call('ZRANGE', waiters, 0, -1, 'WITHSCORES')
for at = 1, #all, 2 do
  -- A waiter that does not listen any more does not count: `wake` skips it, too. If the user may not ask that, all
  -- count.
  local heard = redis.pcall('PUBSUB', 'NUMSUB', string.match(all[at], '^%S+'))
  if heard.err or heard[2] > 0 then
    waiting = waiting + 1
    if waiting <= tonumber(ARGV[3]) then
      listed[#listed + 1] = all[at]
      listed[#listed + 1] = math.max(0, now_ms - all[at + 1])
    end
  end
end
local answer = {fence, dirty, clean, open, waiting, listed}
if holder then
  local _, since_ms, owner = cmsgpack.unpack(held)
  for _, value in ipairs({holder, owner, math.max(0, now_ms - since_ms), redis.call('PTTL', lock)}) do
    answer[#answer + 1] = value
  end
end
return answer
