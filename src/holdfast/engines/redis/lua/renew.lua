-- Extend a ticket, holding or waiting; never brings one back.
-- ARGV: ID, TTL_US
-- Returns {place, fence, abandoned, recheck_us}.
local id, ttl_us = ARGV[1], tonumber(ARGV[2])

-- Never sooner than promised before: this may be a late request with a shorter ttl.
if holder == id and expires > now then
  expires = math.max(expires, now + ttl_us)
  rely(ttl_us)
  save()
  return {ADMITTED, fence, abandoned, 0}
end

--[[queue.lua]]

local promised, my_info = waiter(id)
local my_fence = promised and promised > now and redis.call('ZSCORE', queue, id)
if not my_fence then
  settle('')
  return {GONE, 0, 0, 0}
end
write(id, math.max(promised, now + ttl_us), my_info, ttl_us)
return standing(id, tonumber(my_fence))
