-- Stands in front of every guarded script: refuse a holder that was overtaken, else note its fence.
--   KEYS[1…COUNT]  the newest fence and whose it is, for each key or hash tag that follows
--   ARGV[1]  COUNT    ARGV[2]  FENCE    ARGV[3]  HOLDER
-- All of these are taken away, so that what follows has KEYS and ARGV to itself.
do
  local count = tonumber(table.remove(ARGV, 1))
  local given, holder = table.remove(ARGV, 1), table.remove(ARGV, 1)
  local fences = {}
  for n = 1, count do
    fences[n] = table.remove(KEYS, 1)
    local seen = redis.call('HMGET', fences[n], 'fence', 'holder')
    local newest = seen[1] or ''
    -- As digits, not as numbers: those of Lua are exact up to 2^53 only.
    if #given < #newest or (#given == #newest and given < newest) or (given == newest and holder ~= seen[2]) then
      return redis.error_reply('STALEFENCE ' .. newest)
    end
  end
  for _, key in ipairs(fences) do
    redis.call('HSET', key, 'fence', given, 'holder', holder)
  end
end
