-- What is needed only where somebody waits, or did: most calls are done before they come here.

-- Of one that waits: when it expires, and its info.
local function waiter(id)
  local ticket = redis.call('HGET', waiters, id)
  if ticket then
    return cmsgpack.unpack(ticket)
  end
end

local function write(id, its_expiry, its_info, ttl_us)
  redis.call('HSET', waiters, id, cmsgpack.pack(its_expiry, its_info))
  if rely(ttl_us) then
    save()
  end
  redis.call('PEXPIRE', queue, lifetime())
  redis.call('PEXPIRE', waiters, lifetime())
end

local function drop(id)
  redis.call('ZREM', queue, id)
  redis.call('HDEL', waiters, id)
end

-- Push to a ticket where it stands: "ID PLACE FENCE ABANDONED RECHECK_US".
local function tell(id, its_info, place, its_fence, flag, recheck_us)
  redis.call('PUBLISH', string.match(its_info, '^%S+'),
    table.concat({id, place, integer(its_fence), flag, integer(recheck_us)}, ' '))
end

-- The holder is gone: make the first living ticket the holder. The dead ones in between never held the
-- lock, so they don't count as abandoned.
local function pass_on(flag, asking)
  holder, abandoned = nil, flag
  while true do
    local first = redis.call('ZPOPMIN', queue)
    local id = first[1]
    if not id then
      save()
      return
    end
    local its_expiry, its_info = waiter(id)
    redis.call('HDEL', waiters, id)
    if its_expiry and its_expiry > now then
      -- crowded: to look whether anybody else waits would cost more than to find nobody next time.
      crowded, holder, fence, expires, since, info = true, id, tonumber(first[2]), its_expiry, now, its_info
      save()
      if id ~= asking then
        tell(id, info, ADMITTED, fence, abandoned, 0)
      end
      return
    end
  end
end

-- See to it that a living ticket holds, if there is one.
local function settle(asking)
  if holder and expires <= now then
    pass_on(1, asking)
  elseif not holder and redis.call('EXISTS', queue) == 1 then
    -- A server that evicts keys has dropped the record.
    pass_on(abandoned, asking)
  end
end

-- {place, fence, abandoned, recheck_us} of a living ticket that waits behind a living holder.
local function waiting(its_fence)
  while true do
    local ahead = redis.call('ZRANGE', queue, '(' .. integer(its_fence), '-inf',
      'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
    local its_expiry = expires
    if ahead then
      its_expiry = waiter(ahead) or 0
    end
    if its_expiry > now then
      return {WAITING, its_fence, 0, its_expiry - now}
    end
    drop(ahead)
  end
end

-- The same of a living ticket that waited when the script began.
local function standing(id, its_fence)
  settle(id)
  if holder == id then
    return {ADMITTED, fence, abandoned, 0}
  end
  return waiting(its_fence)
end
