-- Join the queue, or look again and renew if already in it.
-- ARGV: ID, TTL_US, CHANNEL, OWNER, IF_FREE ('1': join only if admitted at once)
-- Returns {place, fence, abandoned, recheck_us}.
local id, ttl_us, my_info = ARGV[1], tonumber(ARGV[2]), ARGV[3] .. ' ' .. ARGV[4]
local my_expiry = now + ttl_us

local function hold()
  -- The clock keeps fences growing when the last one was lost in a restart.
  last = math.max(last + 1, now)
  keep, crowded, holder, fence, expires, since, info = nil, false, id, last, my_expiry, now, my_info
  rely(ttl_us)
  save()
  return {ADMITTED, fence, abandoned, 0}
end

if known and not holder then
  return hold()
end

--[[queue.lua]]

if holder == id and expires > now then
  expires, info = math.max(expires, my_expiry), my_info
  rely(ttl_us)
  save()
  return {ADMITTED, fence, abandoned, 0}
end

-- In both keys, or it is a newcomer: a server that evicts keys may have dropped one of the two.
local promised = waiter(id)
local my_fence = promised and promised > now and redis.call('ZSCORE', queue, id)
if my_fence then
  write(id, math.max(promised, my_expiry), my_info, ttl_us)
  return standing(id, tonumber(my_fence))
end

if promised then
  drop(id)
end
settle(id)
if not holder then
  return hold()
end
if ARGV[5] == '1' then
  return {REFUSED, 0, 0, 0}
end
last, crowded = math.max(last + 1, now), true
rely(ttl_us)
save()
redis.call('ZADD', queue, last, id)
write(id, my_expiry, my_info, ttl_us)
return waiting(last)
