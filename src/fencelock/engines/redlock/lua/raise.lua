-- The second phase: raise the fence here to the one that the bid has chosen.
-- Only while the bid has the lock here: so only the holder itself changes the fence under it.
-- ARGV: RUN, ID, FENCE
-- Returns {GRANTED, fence, dirty, clean}, the fence higher than asked for if it is; {REFUSED, ms} or {BLANK, ms}.
--[[waiting.lua]]
local blank = blank_ms()
if blank then
  return {BLANK, blank}
end
if not mine() then
  return {REFUSED, holder and math.max(0, redis.call('PTTL', lock)) or 0}
end
local wanted = tonumber(ARGV[3])
if wanted > fence then
  fence = wanted
  save_trace(redis.call('PTTL', lock))
  cover(fence, 0)
end
return granted()
