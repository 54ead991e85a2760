-- Who holds and who waits.
-- ARGV: LIMIT (how many waiters to list)
-- Returns {last, abandoned, how long the holder has held (µs), how many hold and wait, ticket...},
-- the holder first, each ticket without its id: {fence, expires in (µs), joined ago (µs), owner}.
--[[queue.lua]]
settle('')
local answer = {last, abandoned, 0, 0}
if not holder then
  return answer
end

local function show(its_fence, its_expiry, its_info)
  -- A fence is the time of joining, unless the clock was set back.
  local owner = string.match(its_info, '^%S+ (.*)$')
  answer[#answer + 1] = {its_fence, its_expiry - now, math.max(0, now - its_fence), owner}
end

answer[3] = math.max(0, now - since)
answer[4] = 1 + redis.call('ZCARD', queue)
show(fence, expires, info)
local limit = tonumber(ARGV[1])
local ids = limit > 0 and redis.call('ZRANGE', queue, 0, limit - 1, 'WITHSCORES') or {}
for index = 1, #ids, 2 do
  local its_expiry, its_info = waiter(ids[index])
  if its_expiry and its_expiry > now then
    show(tonumber(ids[index + 1]), its_expiry, its_info)
  else
    answer[4] = answer[4] - 1
  end
end
return answer
