-- Stands in front of the scripts that are about one name.
--   KEYS[2]  the lock, with its ttl as expiry: who has it here: id, since when (ms), owner
--   KEYS[3]  the trace, for a day longer than the lock: the fence, open (1 until whoever got it has departed),
--            dirty, clean: the newest fences whose holders went without a word, and as they should
--   KEYS[4]  those who wait, "CHANNEL ID OWNER" by when they came: only a hint whom to wake, nobody's right
--   ARGV[2]  ID, of the bid: "TICKET.NUMBER"
local lock, trace, waiters, id = KEYS[2], KEYS[3], KEYS[4], ARGV[2]
local fence, open, dirty, clean = 0, 0, 0, 0
local DAY = 24 * 3600 * 1000
local held, traced = found[2], found[3]
if traced then
  fence, open, dirty, clean = cmsgpack.unpack(traced)
else
  -- New, or not used for a day: then its last fence is from before the mark, as long as that is not older.
  -- (Nor in the future: the clock was set back.)
  local now_ms = clock_ms()
  if now_ms < marked or now_ms - marked > DAY / 2 then
    mark, marked = ceiling, now_ms
    save_node()
  end
  fence = mark
end
local holder = held and cmsgpack.unpack(held)

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

-- It is free here: wake the one that came first of those who still listen, and nobody else.
local function wake_next()
  while true do
    local first = redis.call('ZPOPMIN', waiters)[1]
    if not first then
      return
    end
    local channel, its_id = string.match(first, '^(%S+) (%S+)')
    if redis.call('PUBLISH', channel, its_id) > 0 then
      return
    end
  end
end
