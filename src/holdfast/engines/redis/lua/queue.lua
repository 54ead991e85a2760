-- What is needed only where somebody waits, or did: most calls are done before they come here.

-- Of one that waits: when it expires, its info, since when it waits, its share.
local function waiter(id)
  local ticket = redis.call('HGET', waiters, id)
  if ticket then
    return cmsgpack.unpack(ticket)
  end
end

local function write(id, its_expiry, its_info, joined, its_share)
  redis.call('HSET', waiters, id, cmsgpack.pack(its_expiry, its_info, joined, its_share))
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
