-- What is needed only where somebody waits, or did: most calls are done before they come here.

-- Of one in the queue: when it expires, its info, since when it waits or holds, its share; its fence if it holds.
local function ticket(id)
  local packed = redis.call('HGET', tickets, id)
  if packed then
    return cmsgpack.unpack(packed)
  end
end

local function store(id, its_expiry, its_info, its_since, its_share, its_fence)
  redis.call('HSET', tickets, id, cmsgpack.pack(its_expiry, its_info, its_since, its_share, its_fence))
end

local function prolong()
  redis.call('PEXPIRE', queue, lifetime())
  redis.call('PEXPIRE', tickets, lifetime())
end

-- With its fence if it is one of several that hold.
local function write(id, its_expiry, its_info, its_since, its_share, its_fence)
  if its_fence then
    redis.call('ZADD', queue, -its_expiry, id)
  end
  store(id, its_expiry, its_info, its_since, its_share, its_fence)
  prolong()
end

local function drop(id)
  redis.call('ZREM', queue, id)
  redis.call('HDEL', tickets, id)
end

-- Push to a ticket where it stands: "ID PLACE FENCE ABANDONED RECHECK_US".
local function tell(id, its_info, place, its_fence, flag, recheck_us)
  redis.call('PUBLISH', string.match(its_info, '^%S+'),
    table.concat({id, place, integer(its_fence), flag, integer(recheck_us)}, ' '))
end

--[[group.lua]]

-- Nobody holds it any more: make the first living ticket the holder, and let in whoever fits beside it. The
-- dead ones in between never held the lock, so they don't count as abandoned.
local function pass_on(flag, asking)
  holder, share, abandoned = nil, nil, flag
  while true do
    local first = redis.call('ZPOPMIN', queue)
    local id, its_fence = first[1], tonumber(first[2])
    if not id then
      save()
      return
    end
    local its_expiry, its_info, _, its_share = ticket(id)
    redis.call('HDEL', tickets, id)
    -- With a negative number it is one of several that held.
    if its_fence > 0 and its_expiry and its_expiry > now then
      -- crowded: to look whether anybody else waits would cost more than to find nobody next time.
      crowded, holder, fence, expires, since, info = crowded or true, id, its_fence, its_expiry, now, its_info
      if id ~= asking then
        tell(id, info, ADMITTED, fence, abandoned, 0)
      end
      if its_share then
        share = its_share
        admit(asking)
      end
      save()
      return
    end
  end
end

-- See to it that a living ticket holds, if there is one, and that whoever fits beside it does, too.
local function settle(asking)
  if holder == '' and expires <= now then
    if bury() then
      admit(asking)
      save()
    else
      pass_on(abandoned, asking)
    end
  elseif holder and expires <= now then
    pass_on(share and abandoned or 1, asking)
  elseif share then
    if admit(asking) then
      save()
    end
  elseif not holder and redis.call('EXISTS', queue) == 1 then
    -- A server that evicts keys has dropped the record.
    pass_on(abandoned, asking)
  end
end
