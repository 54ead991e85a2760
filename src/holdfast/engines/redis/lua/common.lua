-- Stands in front of every script. All work on one name and its two keys, in one hash slot:
--   KEYS[1]  the record, a hash: last (newest fence), abandoned ('1' or '0'), since (when the holder
--            was admitted, µs), keep (ms, only if a ttl asked for more than a day), and per ticket:
--            ID -> when it expires (µs), 'i' .. ID -> its info, "CHANNEL OWNER"
--   KEYS[2]  the queue, a sorted set: ID by fence. The first is the holder.
-- Every script leaves a living ticket at the head, and has told it so. Tickets that expired elsewhere in
-- the queue are taken out when the one behind them looks. So no script reads more than the head and
-- one neighbour, however long the queue is.
local record, queue = KEYS[1], KEYS[2]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local GONE, WAITING, ADMITTED, REFUSED = 0, 1, 2, 3
local DAY_MS, HOUR_MS = 86400000, 3600000

-- Lua would print 1.79e+15.
local function integer(number)
  return string.format('%.0f', number)
end

local function alive(expires)
  return expires and tonumber(expires) > now
end

local function drop(id)
  redis.call('ZREM', queue, id)
  redis.call('HDEL', record, id, 'i' .. id)
end

-- Keep both keys while somebody may come back to them, and a crashed holder's traces for a day. A
-- ticket with a short ttl must not cut short what one with a long ttl relies on: hence `keep`.
local function preserve(ttl_us, keep)
  local ms = integer(math.max(DAY_MS, 2 * ttl_us / 1000, keep or 0))
  if tonumber(ms) > DAY_MS and ms ~= keep then
    redis.call('HSET', record, 'keep', ms)
  end
  redis.call('PEXPIRE', record, ms)
  redis.call('PEXPIRE', queue, ms)
end

-- Push to a ticket where it stands: "ID PLACE FENCE ABANDONED RECHECK_US".
local function tell(id, info, place, fence, abandoned, recheck_us)
  local channel = string.match(info or '', '^%S+')
  if channel then
    redis.call('PUBLISH', channel,
      table.concat({id, place, integer(fence), abandoned, integer(recheck_us)}, ' '))
  end
end

-- The head has changed: find the first living ticket and make it the holder. The dead ones in between
-- never held the lock, so they don't count as abandoned.
local function pass_on(abandoned, asking)
  redis.call('HSET', record, 'abandoned', abandoned, 'since', integer(now))
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
    local id, fence = first[1], first[2]
    if not id then
      redis.call('PEXPIRE', record, DAY_MS)
      return nil
    end
    local known = redis.call('HMGET', record, id, 'i' .. id)
    if alive(known[1]) then
      if id ~= asking then
        tell(id, known[2], ADMITTED, fence, abandoned, 0)
      end
      return id
    end
    drop(id)
  end
end

-- The holder, and whether the one before it has just expired and was taken out.
local function holder(asking)
  local id = redis.call('ZRANGE', queue, 0, 0)[1]
  if id and not alive(redis.call('HGET', record, id)) then
    drop(id)
    return pass_on('1', asking), true
  end
  return id, false
end

-- {place, fence, abandoned, recheck_us} of a living ticket that stands behind a living holder.
local function waiting(fence)
  while true do
    local ahead = redis.call('ZRANGE', queue, '(' .. integer(fence), '-inf',
      'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
    local expires = redis.call('HGET', record, ahead)
    if alive(expires) then
      return {WAITING, integer(fence), '0', expires - now}
    end
    drop(ahead)
  end
end

-- The same of a living ticket, wherever in the queue it stands.
local function standing(id, fence)
  if holder(id) == id then
    return {ADMITTED, integer(fence), redis.call('HGET', record, 'abandoned') or '0', 0}
  end
  return waiting(fence)
end
