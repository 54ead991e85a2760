-- The first phase: take the lock here if it is free, under a fence above all earlier ones.
-- ARGV: RUN, ID, TTL_MS, HINT (the client's clock in µs, or 0), OWNER,
--       CHANNEL (where to wake it if it is refused, or ''), WAITED_MS ('': it asks for the first time)
-- Returns {GRANTED, fence, dirty, clean}, {REFUSED, ms until the lock expires, 1 if another bid of the same ticket
-- has it, else 0} or {BLANK, ms}.

-- A clock that is a hundred years ahead would raise fences to where Lua can't tell a number from the next one.
local ttl_ms, hint = tonumber(ARGV[3]), tonumber(ARGV[4])
if hint > 2 ^ 52 then
  hint = 0
end
local my_fence = math.max(fence + 1, floor + 1, hint)

-- The common case: the lock is free, the node is intact, and its own record does not change.
if not held and run == ARGV[1] and intact == 1 and my_fence <= ceiling and ttl_ms <= longest and ARGV[7] == '' then
  dirty = open == 1 and fence or dirty
  redis.call('SET', trace, cmsgpack.pack(my_fence, 1, dirty, clean), 'PX', DAY + ttl_ms)
  redis.call('SET', lock, cmsgpack.pack(id, clock_ms(), ARGV[5]), 'PX', ARGV[3])
  return {GRANTED, my_fence, dirty, clean}
end

--[[waiting.lua]]

local blank = blank_ms()
if blank then
  return {BLANK, blank}
end
if mine() then
  local _, since_ms, owner = cmsgpack.unpack(held)
  if owner ~= ARGV[5] then
    redis.call('SET', lock, cmsgpack.pack(id, since_ms, ARGV[5]), 'KEEPTTL')
  end
  extend(ttl_ms)
  return granted()
end
if holder and holder ~= id then
  if ARGV[6] ~= '' then
    wait_here(ARGV[6], tonumber(ARGV[7]) or 0, ARGV[5])
  end
  return {REFUSED, math.max(0, redis.call('PTTL', lock)), ours() and 1 or 0}
end

if open == 1 then
  dirty = fence
end
fence, open = my_fence, 1
save_trace(ttl_ms)
redis.call('SET', lock, cmsgpack.pack(id, clock_ms(), ARGV[5]), 'PX', ARGV[3])
if ARGV[6] ~= '' then
  wait_no_more(ARGV[6], ARGV[5])
end
cover(fence, ttl_ms)
return granted()
