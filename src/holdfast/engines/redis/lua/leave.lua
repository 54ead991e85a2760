-- Take out this very ticket, and tell whom this admits.
-- ARGV: ID, DEPARTURE ('0': released, '1': lost, '2': withdrawn, so the flag stays as it is)
-- Returns 1, or 0 if it was not there (any more).
local id = ARGV[1]
local flag = ARGV[2] ~= '2' and tonumber(ARGV[2])

-- Nobody waits, as in most cases.
if holder == id and not crowded and expires > now then
  holder, abandoned = nil, not share and flag or abandoned
  save()
  return 1
end

--[[the queue]]

-- One that leaves from further behind may be the first to notice that the holder has expired.
settle(id)
if holder == id then
  pass_on(not share and flag or abandoned, '')
  return 1
end

local its_expiry, _, _, its_share = sharer(id)
if its_expiry then
  redis.call('HDEL', sharers, id)
  used = used - its_share.weight
  if redis.call('EXISTS', sharers) == 1 then
    admit('')
    save()
  else
    pass_on(abandoned, '')
  end
  return 1
end

local promised = waiter(id)
if not promised then
  return 0
end
local rank = redis.call('ZRANK', queue, id)
drop(id)
-- It may have kept those behind it out, though they fit.
if share and rank == 0 and admit('') then
  save()
end
-- The one behind now stands behind someone else: it should look again when that one expires.
local behind = rank and redis.call('ZRANGE', queue, rank, rank, 'WITHSCORES') or {}
if behind[1] then
  local _, its_info = waiter(behind[1])
  local ahead_expires = expires
  if rank > 0 then
    ahead_expires = waiter(redis.call('ZRANGE', queue, rank - 1, rank - 1)[1]) or now
  end
  if its_info then
    tell(behind[1], its_info, WAITING, tonumber(behind[2]), 0, math.max(0, ahead_expires - now))
  end
end
return promised > now and 1 or 0
