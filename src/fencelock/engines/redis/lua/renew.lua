-- Extend a ticket, holding or waiting; never brings one back.
-- ARGV: ID, TTL_US
-- Returns {place, fence, abandoned, recheck_us}.
local id, ttl_us = ARGV[1], tonumber(ARGV[2])
--[[saving.lua]]

-- Never sooner than promised before: this may be a late request with a shorter ttl.
if holder == id and expires > now then
  expires = math.max(expires, now + ttl_us)
  rely(ttl_us)
  save()
  return {ADMITTED, fence, abandoned, 0}
end

--[[queue.lua]]
--[[standing.lua]]

settle(id)
return renewed(id, ttl_us) or {GONE, 0, 0, 0}
