-- Functions for a name's lock and its waiters. The common cases end before this.
--[[memory.lua]]

-- ttl_ms: of the lock, if there is one. A trace never expires before the lock.
local function save_trace(ttl_ms)
  redis.call('SET', trace, cmsgpack.pack(fence, open, dirty, clean), 'PX', DAY + (ttl_ms or 0))
end

-- GT: a late request with a shorter ttl takes no time away.
local function extend(ttl_ms)
  redis.call('PEXPIRE', lock, ttl_ms, 'GT')
  redis.call('PEXPIRE', trace, DAY + ttl_ms, 'GT')
  cover(fence, ttl_ms)
end

-- Whether this bid has the lock, and not only in data from before the node lost some.
local function mine()
  return holder == id and fence > floor
end

-- The ticket of a bid.
local function ticket_of(bid)
  return string.match(bid, '^[^.]*')
end

-- Whether this bid has the lock, or another bid of the same ticket, perhaps of another client.
local function ours()
  return holder and ticket_of(holder) == ticket_of(id) and fence > floor
end

local function granted()
  return {GRANTED, fence, dirty, clean}
end

-- The entry of a waiter: by its ticket, the same for all its bids.
local function waiter(channel, owner)
  return channel .. ' ' .. ticket_of(id) .. ' ' .. owner
end

-- List this ticket as a waiter. It says how long it has waited, so that no clocks are compared.
local function wait_here(channel, waited_ms, owner)
  redis.call('ZADD', waiters, clock_ms() - waited_ms, waiter(channel, owner))
  redis.call('PEXPIRE', waiters, 60000)
end

-- Take it off the list: a wake-up for a ticket that does not wait would be lost, and no other ticket woken.
local function wait_no_more(channel, owner)
  redis.call('ZREM', waiters, waiter(channel, owner))
end

-- The lock is free here: wake this waiter, or else the next one that still listens.
local function wake(first)
  while first do
    local channel, its_id = string.match(first, '^(%S+) (%S+)')
    if redis.call('PUBLISH', channel, its_id) > 0 then
      return
    end
    first = redis.call('ZPOPMIN', waiters)[1]
  end
end
