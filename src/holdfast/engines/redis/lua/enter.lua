-- Join the queue, or look again and renew if already in it.
-- ARGV: ID, TTL_US, CHANNEL, OWNER, IF_FREE ('1': join only if admitted at once)
-- Returns {place, fence, abandoned, recheck_us}.
local id, ttl_us, info = ARGV[1], tonumber(ARGV[2]), ARGV[3] .. ' ' .. ARGV[4]
local expires = integer(now + ttl_us)
local known = redis.call('HMGET', record, 'last', 'abandoned', id, 'keep')

-- In both keys, or it is a newcomer: a server that evicts keys may have dropped one of the two.
local fence = alive(known[3]) and redis.call('ZSCORE', queue, id)
if fence then
  expires = integer(math.max(known[3], expires))
  redis.call('HSET', record, id, expires, 'i' .. id, info)
  preserve(ttl_us, known[4])
  return standing(id, fence)
end

local head, expired = holder(id)
if known[3] then
  drop(id)
end
if head and ARGV[5] == '1' then
  return {REFUSED, '0', '0', 0}
end

-- The clock keeps fences growing when the last one was lost in a restart.
fence = integer(math.max((known[1] or 0) + 1, now))
redis.call('ZADD', queue, fence, id)
if head then
  redis.call('HSET', record, 'last', fence, id, expires, 'i' .. id, info)
  preserve(ttl_us, known[4])
  return waiting(fence)
end
local abandoned = expired and '1' or known[2] or '0'
redis.call('HSET', record, 'last', fence, 'abandoned', abandoned, 'since', integer(now),
  id, expires, 'i' .. id, info)
preserve(ttl_us, known[4])
return {ADMITTED, fence, abandoned, 0}
