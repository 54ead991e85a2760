-- Renew a ticket that holds or waits. Never brings a ticket back.
-- ARGV: ID, TTL_US
-- Returns {place, fence, abandoned, recheck_us}.
local id, ttl_us = ARGV[1], tonumber(ARGV[2])
--[[saving.lua]]

-- It never expires sooner than promised: this may be a late request with a shorter ttl.
if holder == id and expires > now then
  expires = share and share.lasts and expires or math.max(expires, now + ttl_us)
  extend_keep(ttl_us)
  save()
  return {ADMITTED, fence, abandoned, 0}
end

--[[queue.lua]]
--[[standing.lua]]

ensure_holder(id)
return renewed(id, ttl_us) or {GONE, 0, 0, 0}
