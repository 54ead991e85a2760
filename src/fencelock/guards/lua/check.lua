-- Runs before every guarded script: refuse a stale holder, else store its fence.
--   KEYS[1…COUNT]  hashes with the newest fence and its holder, one for each key or hash tag that follows
--   ARGV[1]  COUNT    ARGV[2]  FENCE    ARGV[3]  HOLDER
-- All of these are removed, so the script that follows finds only its own KEYS and ARGV.
do
  local count = tonumber(table.remove(ARGV, 1))
  local given, holder = table.remove(ARGV, 1), table.remove(ARGV, 1)
  local fences = {}
  for n = 1, count do
    fences[n] = table.remove(KEYS, 1)
    local seen = redis.call('HMGET', fences[n], 'fence', 'holder')
    local newest = seen[1] or ''
    -- Compared as digits: numbers of Lua are exact only up to 2^53.
    if #given < #newest or (#given == #newest and given < newest) or (given == newest and holder ~= seen[2]) then
      return redis.error_reply('STALEFENCE ' .. newest)
    end
  end
  for _, key in ipairs(fences) do
    redis.call('HSET', key, 'fence', given, 'holder', holder)
  end
end
