-- What is needed only where the record is more than a free one that somebody takes, or gives back: a script
-- that ends before it comes here does not pay for it.
local queue, tickets = KEYS[2], KEYS[3]
local GONE, REFUSED = 0, 3

-- Lua would print 1.79e+15.
local function integer(number)
  return string.format('%.0f', number)
end

-- How long to keep the keys: while somebody may come back to them, and a crashed holder's traces for a
-- day. A ticket with a short ttl must not cut short what one with a long ttl relies on: hence `keep`.
local function lifetime()
  return keep and integer(keep) or DAY
end

-- Note down how long a ticket may rely on the keys; true if that is longer than before.
local function rely(ttl_us)
  local ms = 2 * ttl_us / 1000
  if ms > (keep or tonumber(DAY)) then
    keep = ms
    return true
  end
end

local function save()
  if not holder then
    redis.call('SET', record, cmsgpack.pack(FORMAT, last, abandoned), 'PX', abandoned == 1 and DAY or HOUR)
  elseif share then
    redis.call('SET', record,
      cmsgpack.pack(FORMAT, last, abandoned, keep, crowded, holder, fence, expires, since, info, share),
      'PX', lifetime())
  else
    redis.call('SET', record,
      cmsgpack.pack(FORMAT, last, abandoned, keep, crowded, holder, fence, expires, since, info),
      'PX', lifetime())
  end
end
