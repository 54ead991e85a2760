-- Take out this ticket, and tell the tickets that are admitted by that.
-- ARGV: ID, DEPARTURE ('0': released, '1': lost, '2': withdrawn: `abandoned` stays as it is)
-- Returns 1, or 0 if it was not there.
local id = ARGV[1]
local flag = ARGV[2] ~= '2' and tonumber(ARGV[2])

-- The common case: no ticket waits.
if holder == id and not crowded and expires > now then
  abandoned = not share and flag or abandoned
  redis.call('SET', record, cmsgpack.pack(FORMAT, last, abandoned), 'PX', abandoned == 1 and DAY or HOUR)
  return 1
end

-- Many compete for a mutex: the first ticket in the queue waits to hold alone.
if holder == id and crowded and not share and not keep and expires > now then
  local first = redis.call('ZPOPMIN', KEYS[2])
  local its_id, its_fence = first[1], first[2]
  local packed = its_id and redis.call('HGET', KEYS[3], its_id)
  local its_expiry, its_info, _, its_share = 0
  if packed then
    its_expiry, its_info, _, its_share = cmsgpack.unpack(packed)
  end
  if its_expiry > now and not its_share then
    abandoned, its_fence = flag or abandoned, tonumber(its_fence)
    redis.call('HDEL', KEYS[3], its_id)
    redis.call('PUBLISH', string.match(its_info, '^%S+'),
      string.format('%s 2 %.0f %d 0', its_id, its_fence, abandoned))
    redis.call('SET', record, cmsgpack.pack(FORMAT, last, abandoned, nil, crowded, its_id, its_fence, its_expiry,
      now, its_info), 'PX', DAY)
    return 1
  end
  if its_id then
    redis.call('ZADD', KEYS[2], its_fence, its_id)  -- put it back: the general code below takes it
  end
end

--[[saving.lua]]
--[[queue.lua]]

-- A ticket that leaves from further behind may be the first to notice that the holder has expired.
ensure_holder(id)
if holder == id then
  hand_over(not share and flag or abandoned, '')
  return 1
end

--[[standing.lua]]

local its_expiry, _, _, its_share = ticket(id)
if not its_expiry then
  return 0
end
local score = redis.call('ZSCORE', queue, id)
drop(id)
if score and tonumber(score) < 0 then
  share.weight = share.weight - its_share.weight
  if drop_expired_holders() then
    admit('')
    save()
  else
    hand_over(abandoned, '')
  end
  return 1
end

-- Perhaps it kept out tickets behind it that fit.
if share and admit('') then
  save()
end
-- The ticket behind it stands behind another ticket now, and must look again when that one expires.
local next = score and redis.call('ZRANGE', queue, '(' .. score, '+inf',
  'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES') or {}
if next[1] then
  local _, its_info, _, next_share = ticket(next[1])
  if its_info then
    push(next[1], its_info, unpack((waiting(tonumber(next[2]), next_share))))
  end
elseif behind then
  crowded = true  -- it was the last
  save()
end
return its_expiry > now and 1 or 0
