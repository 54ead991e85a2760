-- Extend a ticket, holding or waiting; never brings one back.
-- ARGV: ID, TTL_US
-- Returns {place, fence, abandoned, recheck_us}.
local id, ttl_us = ARGV[1], tonumber(ARGV[2])
local known = redis.call('HMGET', record, id, 'keep')
local fence = alive(known[1]) and redis.call('ZSCORE', queue, id)

if not fence then
  holder('')
  return {GONE, '0', '0', 0}
end
-- Never sooner than promised before: this may be a late request with a shorter ttl.
redis.call('HSET', record, id, integer(math.max(known[1], now + ttl_us)))
preserve(ttl_us, known[2])
return standing(id, fence)
