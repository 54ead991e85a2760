-- What is done to a name's lock, and to those who wait for it, where there is more to do than in most cases.
--[[memory.lua]]

-- ttl_ms: of the lock, if there is one. A trace never goes before it.
local function save_trace(ttl_ms)
  redis.call('SET', trace, cmsgpack.pack(fence, open, dirty, clean), 'PX', DAY + (ttl_ms or 0))
end

-- GT: a late request with a shorter ttl takes no time away.
local function extend(ttl_ms)
  redis.call('PEXPIRE', lock, ttl_ms, 'GT')
  redis.call('PEXPIRE', trace, DAY + ttl_ms, 'GT')
  cover(fence, ttl_ms)
end

-- Whether this very ticket has it, and not only in a memory from before the node forgot something.
local function mine()
  return holder == id and fence > floor
end

local function granted()
  return {GRANTED, fence, dirty, clean}
end

-- How one that waits is listed: by its ticket, whichever of its bids this is.
local function waiter(channel, owner)
  return channel .. ' ' .. string.match(id, '^[^.]*') .. ' ' .. owner
end

-- Have this one woken when its turn may have come. It says how long it has waited: clocks are not compared.
local function wait_here(channel, waited_ms, owner)
  redis.call('ZADD', waiters, clock_ms() - waited_ms, waiter(channel, owner))
  redis.call('PEXPIRE', waiters, 60000)
end

-- A wake-up for one that does not wait would be lost, and nobody else woken.
local function wait_no_more(channel, owner)
  redis.call('ZREM', waiters, waiter(channel, owner))
end

-- It is free here: wake this one, or the one that comes next of those who still listen, and nobody else.
local function wake(first)
  while first do
    local channel, its_id = string.match(first, '^(%S+) (%S+)')
    if redis.call('PUBLISH', channel, its_id) > 0 then
      return
    end
    first = redis.call('ZPOPMIN', waiters)[1]
  end
end
