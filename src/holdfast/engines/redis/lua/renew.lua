-- Extend a ticket, holding or waiting; never brings one back.
-- ARGV: ID, TTL_US
-- Returns {place, fence, abandoned, recheck_us}.
local id, ttl_us = ARGV[1], tonumber(ARGV[2])

if not alive(redis.call('HGET', record, id)) then
  holder('')
  return {GONE, '0', '0', 0}
end
redis.call('HSET', record, id, integer(now + ttl_us))
preserve(ttl_us)
return standing(id)
