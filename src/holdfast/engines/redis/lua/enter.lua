-- Join the queue, or look again and renew if already in it.
-- ARGV: ID, TTL_US, CHANNEL, OWNER, IF_FREE ('1': join only if admitted at once);
--       if it asks for more, FLOOR (a newcomer's fence is above it); if it shares, GROUP, WEIGHT, PERMITS
-- Returns {place, fence, abandoned, recheck_us}.
local id, ttl_us, my_info = ARGV[1], tonumber(ARGV[2]), ARGV[3] .. ' ' .. ARGV[4]
local my_share = ARGV[7] and {group = ARGV[7], weight = tonumber(ARGV[8]), permits = tonumber(ARGV[9])}

-- The clock keeps fences growing when the last one was lost in a restart.
local my_fence = math.max(last + 1, now, (ARGV[6] or 0) + 1)

-- Hold it as the only one, under the newest fence.
local function hold()
  keep, crowded, holder, fence, expires, since, info = nil, false, id, last, now + ttl_us, now, my_info
  rely(ttl_us)
  save()
  return {ADMITTED, fence, abandoned, 0}
end

if known and not holder then
  last, share = my_fence, my_share
  return hold()
end

--[[queue.lua]]
--[[standing.lua]]

settle(id)
if not holder then
  last, share = my_fence, my_share
  return hold()
end

if holder == id and my_share and not share then
  -- It held alone, and goes over to a group: others may fit beside it now.
  share = my_share
  admit(id)
end
local standing = renewed(id, ttl_us, my_info)
if standing then
  return standing
end

rely(ttl_us)
if not crowded and fits(my_share) then
  last = my_fence
  hold_beside(id, now + ttl_us, my_info, my_share, last)
  save()
  return {ADMITTED, last, abandoned, 0}
end
if ARGV[5] == '1' then
  return {REFUSED, 0, 0, 0}
end
last, crowded = my_fence, true
save()
redis.call('ZADD', queue, last, id)
write(id, now + ttl_us, my_info, now, my_share)
return waiting(last)
