-- Take out this very ticket, and tell whom this admits.
-- ARGV: ID, DEPARTURE ('0': released, '1': lost, '2': withdrawn, so the flag stays as it is)
-- Returns 1, or 0 if it was not there (any more).
local id = ARGV[1]
local known = redis.call('HMGET', record, 'abandoned', id, 'keep')
local was_abandoned, expires, keep = known[1], known[2], known[3]
local first = redis.call('ZRANGE', queue, 0, 1)

-- One that leaves from further behind may be the first to notice that the holder has expired.
if first[1] ~= id and first[1] and not alive(redis.call('HGET', record, first[1])) then
  holder(id)
  was_abandoned = '1'
  first = redis.call('ZRANGE', queue, 0, 1)
end
if not expires then
  return 0
end

if first[1] == id then
  drop(id)
  local abandoned = ARGV[2] == '2' and (was_abandoned or '0') or ARGV[2]
  if not alive(expires) then
    abandoned = '1'
  end
  if first[2] then
    pass_on(abandoned, '')
  else
    if was_abandoned ~= abandoned then
      redis.call('HSET', record, 'abandoned', abandoned)
    end
    if abandoned == '0' then
      redis.call('PEXPIRE', record, HOUR_MS)
    end
    if keep then
      redis.call('HDEL', record, 'keep')
    end
  end
else
  local rank = redis.call('ZRANK', queue, id)
  drop(id)
  -- The one behind now stands behind someone else: it should look again when that one expires.
  local behind = rank and redis.call('ZRANGE', queue, rank, rank, 'WITHSCORES') or {}
  if behind[1] then
    local info = redis.call('HGET', record, 'i' .. behind[1])
    local ahead = redis.call('ZRANGE', queue, rank - 1, rank - 1)[1]
    local expires = redis.call('HGET', record, ahead)
    tell(behind[1], info, WAITING, behind[2], '0', math.max(0, (expires or now) - now))
  end
end
return alive(expires) and 1 or 0
