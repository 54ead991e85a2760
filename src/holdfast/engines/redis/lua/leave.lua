-- Take out this very ticket, and tell whom this admits.
-- ARGV: ID
-- Returns 1, or 0 if it was not there (any more).
local id = ARGV[1]
local known = redis.call('HMGET', record, 'abandoned', id)
local expires = known[2]
if not expires then
  return 0
end

local first = redis.call('ZRANGE', queue, 0, 1)
if first[1] == id then
  drop(id)
  local abandoned = alive(expires) and '0' or '1'
  if first[2] then
    pass_on(abandoned, '')
  else
    if known[1] ~= abandoned then
      redis.call('HSET', record, 'abandoned', abandoned)
    end
    if abandoned == '0' then
      redis.call('PEXPIRE', record, HOUR_MS)
    end
  end
else
  local rank = redis.call('ZRANK', queue, id)
  drop(id)
  -- The one behind now stands behind someone else: it should look again when that one expires.
  local behind = redis.call('ZRANGE', queue, rank, rank)[1]
  local ahead = redis.call('ZRANGE', queue, rank - 1, rank - 1)[1]
  if behind and ahead then
    tell(behind, WAITING, '0', math.max(0, redis.call('HGET', record, ahead) - now))
  end
end
return alive(expires) and 1 or 0
