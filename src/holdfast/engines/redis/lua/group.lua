-- What is needed where several hold together, or may. The rule is that of core/admission.py.
local sharers = KEYS[4]

-- Whether a ticket with this share may hold beside those who hold now.
local function fits(its_share)
  return share and its_share and share.group == its_share.group
    and used + its_share.weight <= its_share.permits
end

-- Of one of several that hold: when it expires, its info, since when it holds, its share, its fence.
local function sharer(id)
  local ticket = holder == '' and redis.call('HGET', sharers, id)
  if ticket then
    return cmsgpack.unpack(ticket)
  end
end

local function write_sharer(id, its_expiry, its_info, its_since, its_share, its_fence)
  redis.call('HSET', sharers, id, cmsgpack.pack(its_expiry, its_info, its_since, its_share, its_fence))
  redis.call('PEXPIRE', sharers, lifetime())
end

-- Let one more hold beside those who do.
local function hold_beside(id, its_fence, its_expiry, its_info, its_share)
  if holder ~= '' then
    -- The first one moves out of the record. A server that evicts keys may have left others there.
    redis.call('DEL', sharers)
    write_sharer(holder, expires, info, since, share, fence)
    holder, fence, since, info = '', nil, nil, nil
  end
  write_sharer(id, its_expiry, its_info, now, its_share, its_fence)
  used, expires = used + its_share.weight, math.min(expires, its_expiry)
end

-- Let those in who are first in the queue and fit beside the group that holds; true if anything changed.
local function admit(asking)
  local changed = false
  while crowded do
    local first = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
    local id, its_fence = first[1], tonumber(first[2])
    if not id then
      crowded = false
      return true
    end
    local its_expiry, its_info, _, its_share = waiter(id)
    local lives = its_expiry and its_expiry > now
    if lives and not fits(its_share) then
      return changed
    end
    drop(id)
    changed = true
    if lives then
      hold_beside(id, its_fence, its_expiry, its_info, its_share)
      if id ~= asking then
        tell(id, its_info, ADMITTED, its_fence, abandoned, 0)
      end
    end
  end
  return changed
end

-- Take out those of several holders who have expired, and count what the others use. False: nobody is left.
-- The record's expiry may be earlier than any of theirs, for they renew without looking at one another:
-- so this is done once per ttl or so, and not for every renewal.
local function bury()
  local all = redis.call('HGETALL', sharers)
  used, expires = 0, math.huge
  for at = 1, #all, 2 do
    local its_expiry, _, _, its_share = cmsgpack.unpack(all[at + 1])
    if its_expiry > now then
      used, expires = used + its_share.weight, math.min(expires, its_expiry)
    else
      redis.call('HDEL', sharers, all[at])
    end
  end
  return expires < math.huge
end
