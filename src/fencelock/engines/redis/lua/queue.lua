-- For names with waiters, now or before. Most calls end before they come here.

-- A ticket in the queue: when it expires, its info, since when it waits or holds, its share; its fence if it holds.
local function ticket(id)
  local packed = redis.call('HGET', tickets, id)
  if packed then
    return cmsgpack.unpack(packed)
  end
end

local function store(id, its_expiry, its_info, its_since, its_share, its_fence)
  redis.call('HSET', tickets, id, cmsgpack.pack(its_expiry, its_info, its_since, its_share, its_fence))
end

local function refresh_keys()
  redis.call('PEXPIRE', queue, lifetime())
  redis.call('PEXPIRE', tickets, lifetime())
end

-- Store a ticket; with its fence if it is one of several holders.
local function write(id, its_expiry, its_info, its_since, its_share, its_fence)
  if its_fence then
    redis.call('ZADD', queue, -its_expiry, id)
  end
  store(id, its_expiry, its_info, its_since, its_share, its_fence)
  refresh_keys()
end

local function drop(id)
  redis.call('ZREM', queue, id)
  redis.call('HDEL', tickets, id)
end

-- Push its standing to a ticket: "ID PLACE FENCE ABANDONED RECHECK_US".
local function push(id, its_info, place, its_fence, flag, recheck_us)
  redis.call('PUBLISH', string.match(its_info, '^%S+'),
    table.concat({id, place, integer(its_fence), flag, integer(recheck_us)}, ' '))
end

--[[group.lua]]

-- The name has no holder any more: make the first living ticket the holder, and admit the tickets that fit beside
-- it. Dead tickets in between never held the lock, so they don't count as abandoned.
local function hand_over(flag, asking)
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
    -- A negative number: it was one of several holders.
    if its_fence > 0 and its_expiry and its_expiry > now then
      -- crowded: looking whether another ticket waits would cost more than finding none next time.
      crowded, holder, fence, expires, since, info =
        crowded or true, id, its_fence, end_of(its_share, its_expiry), now, its_info
      if id ~= asking then
        push(id, info, ADMITTED, fence, abandoned, 0)
      end
      if its_share then
        share = its_share
        admit(asking, true)
      end
      save()
      return
    end
  end
end

-- Ensure that a living ticket holds, if there is one, and that the tickets that fit beside it hold, too.
local function ensure_holder(asking)
  if holder == '' and expires <= now then
    if drop_expired_holders() then
      admit(asking)
      save()
    else
      hand_over(abandoned, asking)
    end
  elseif holder and expires <= now then
    hand_over(share and abandoned or 1, asking)
  elseif share then
    if admit(asking) then
      save()
    end
  elseif not holder and redis.call('EXISTS', queue) == 1 then
    -- A server that evicts keys has deleted the record.
    hand_over(abandoned, asking)
  end
end
