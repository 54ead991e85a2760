-- Join the queue. If the ticket is in it already, renew it and look again.
-- ARGV: ID, CHANNEL, TTL_US, OWNER, IF_FREE ('1': join only if admitted at once);
--       optional: FLOOR (the fence of a new ticket is above it); if it shares, GROUP, WEIGHT, PERMITS
-- Returns {place, fence, abandoned, recheck_us}.
local id, ttl_us, my_info = ARGV[1], tonumber(ARGV[3]), ARGV[2] .. ' ' .. ARGV[4]

-- The clock keeps fences growing when a restart has lost the last one.
local my_fence = last < now and now or last + 1

-- The common case: the name is free, the ticket wants it alone and not for days.
if known and not holder and not ARGV[6] and ttl_us < 4e10 then
  redis.call('SET', record, cmsgpack.pack(FORMAT, my_fence, abandoned, nil, false, id, my_fence,
    now + ttl_us, now, my_info), 'PX', DAY)
  return {ADMITTED, my_fence, abandoned, 0}
end

-- Many compete for a mutex: one more ticket joins the waiters behind a ticket that holds alone.
local till = now + ttl_us
if behind and behind > now and expires > now and not share and not keep and not ARGV[6] and ARGV[5] ~= '1'
  and holder ~= id and ttl_us < 4e10 and now % 64 > 0 and redis.call('ZADD', KEYS[2], 'NX', my_fence, id) == 1 then
  redis.call('SET', record, cmsgpack.pack(FORMAT, my_fence, abandoned, nil, till, holder, fence, expires,
    since, info), 'PX', DAY)
  redis.call('HSET', KEYS[3], id, cmsgpack.pack(till, my_info, now))
  if fence == last then  -- no ticket has come since the holder: these keys are new
    redis.call('PEXPIRE', KEYS[2], DAY)
    redis.call('PEXPIRE', KEYS[3], DAY)
  end
  return {WAITING, my_fence, 0, math.min(behind, expires) - now}
end

-- A rate that has permits left: one more ticket holds, and no ticket waits.
if share and share.lasts and share.group == ARGV[7] and holder == '' and not crowded and expires > now then
  local my_end, weight, permits = now + share.lasts, tonumber(ARGV[8]), tonumber(ARGV[9])
  if share.weight + weight <= permits and my_end < (share.kept or 0) and my_fence > tonumber(ARGV[6])
    and redis.call('ZADD', KEYS[2], 'NX', -my_end, id) == 1 then
    redis.call('HSET', KEYS[3], id, cmsgpack.pack(my_end, my_info, now,
      {group = share.group, weight = weight, permits = permits, lasts = share.lasts}, my_fence))
    share.weight = share.weight + weight
    redis.call('SET', record, cmsgpack.pack(FORMAT, my_fence, abandoned, keep, false, '', nil, expires, nil, nil,
      share), 'PX', keep and string.format('%.0f', keep) or DAY)
    return {ADMITTED, my_fence, abandoned, 0}
  end
end

--[[saving.lua]]
my_fence = math.max(my_fence, (ARGV[6] or 0) + 1)
local my_share = ARGV[7] and {group = ARGV[7], weight = tonumber(ARGV[8]), permits = tonumber(ARGV[9])}
local lives_us = ttl_us  -- for how long its keys are needed
if my_share then
  my_share.lasts = lasts_in(my_share.group)
  lives_us = math.max(ttl_us, my_share.lasts or 0)
end

-- Hold as the only ticket, under the newest fence.
local function hold()
  keep, crowded, holder, fence, expires, since, info = nil, false, id, last, end_of(my_share, till), now, my_info
  extend_keep(lives_us)
  save()
  return {ADMITTED, fence, abandoned, 0}
end

if known and not holder then
  last, share = my_fence, my_share
  return hold()
end

--[[queue.lua]]
--[[standing.lua]]

ensure_holder(id)
if not holder then
  last, share = my_fence, my_share
  return hold()
end

if holder == id and my_share and not share then
  -- It held alone, and joins a group: other tickets may fit beside it now.
  share, expires = my_share, math.max(expires, till)
  admit(id)
end

-- Where others wait, most tickets that come are new, and need not be looked up.
local wants_queue = ARGV[5] ~= '1'
local joined = crowded and wants_queue and holder ~= id
  and redis.call('ZADD', queue, 'NX', my_fence, id) == 1
local standing = not joined and renewed(id, ttl_us, my_info)
if standing then
  return standing
end

local longer = extend_keep(lives_us)
if not crowded and fits(my_share) then
  last = my_fence
  hold_together(id, till, my_info, my_share, last)
  save()
  return {ADMITTED, last, abandoned, 0}
end
if not wants_queue then
  return {REFUSED, 0, 0, my_share and my_share.lasts and room_at(my_share) - now or 0}
end
last, crowded = my_fence, till
save()
if not joined then
  redis.call('ZADD', queue, last, id)
end
store(id, till, my_info, now, my_share)
local ahead
standing, ahead = waiting(last, my_share)
-- Renewals of the waiters keep the keys alive. Where waits are too short for renewals, one call in 64 does it.
if longer or not joined or not ahead or now % 64 == 0 then
  refresh_keys()
end
return standing
