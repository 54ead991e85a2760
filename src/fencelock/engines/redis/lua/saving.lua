-- Functions that save the record. The common cases end before this, and do not pay for making the functions.
local queue, tickets = KEYS[2], KEYS[3]
local GONE, REFUSED = 0, 3

-- Lua would print 1.79e+15.
local function integer(number)
  return string.format('%.0f', number)
end

-- How long to keep the keys: while a ticket may come back, and at least a day after a crash. `keep` is for tickets
-- with a long ttl: a ticket with a short ttl must not shorten the life of the keys.
local function lifetime()
  return keep and integer(keep) or DAY
end

-- For how long a ticket of this group holds, if it is the group of a rate.
local function lasts_in(group)
  local digits = string.match(group, '^rate (%d+)$')
  local us = digits and #digits <= 13 and tonumber(digits) or 0
  return us > 0 and us or nil
end

-- When a ticket that is admitted now expires.
local function end_of(its_share, its_expiry)
  return its_share and its_share.lasts and now + its_share.lasts or its_expiry
end

-- Keep the keys long enough for a ticket. True if that is longer than before.
local function extend_keep(ttl_us)
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
