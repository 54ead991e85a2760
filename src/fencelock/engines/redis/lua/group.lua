-- For names that several tickets hold together, or may. The rule is in core/admission.py.

-- Whether a ticket may hold beside the holders.
local function fits(its_share)
  return share and its_share and share.group == its_share.group
    and share.weight + its_share.weight <= its_share.permits
end

-- When enough holders have expired for one more ticket of a rate; at least one of them has to. It reads no more
-- holders than the ticket wants permits.
local function room_at(its_share)
  local used = share and share.weight
  if holder ~= '' or its_share.group ~= share.group then
    return expires
  end
  local most = math.max(used + its_share.weight - its_share.permits, 1)
  local first = redis.call('ZRANGE', queue, '(0', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, most, 'WITHSCORES')
  for at = 1, #first, 2 do
    local _, _, _, other = ticket(first[at])
    used = used - (other and other.weight or 0)
    if used + its_share.weight <= its_share.permits then
      return -first[at + 1]
    end
  end
  return first[2] and -first[#first] or expires
end

-- Let one more ticket hold beside the holders.
local function hold_together(id, its_expiry, its_info, its_share, its_fence)
  its_expiry = end_of(its_share, its_expiry)
  if holder ~= '' then
    write(holder, expires, info, since, share, fence)
    holder, fence, since, info = '', nil, nil, nil
    share = {group = share.group, weight = share.weight, lasts = share.lasts}
  end
  if its_expiry < (share.kept or 0) then  -- the keys are kept for long enough: two commands less
    redis.call('ZADD', queue, -its_expiry, id)
    store(id, its_expiry, its_info, now, its_share, its_fence)
  else
    write(id, its_expiry, its_info, now, its_share, its_fence)
    share.kept = its_share.lasts and now + 1000 * lifetime()
  end
  share.weight, expires = share.weight + its_share.weight, math.min(expires, its_expiry)
end

-- Admit the first tickets in the queue that fit beside the group that holds. True if anything changed, here or
-- before.
local function admit(asking, changed)
  while crowded do
    local first = redis.call('ZRANGE', queue, '(0', '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    local id, its_fence = first[1], tonumber(first[2])
    if not id then
      crowded = false
      return true
    end
    local its_expiry, its_info, _, its_share = ticket(id)
    local lives = its_expiry and its_expiry > now
    if lives and not fits(its_share) then
      if changed and its_share and its_share.lasts and id ~= asking then
        -- No release will admit it: it must know when to look.
        push(id, its_info, WAITING, its_fence, 0, room_at(its_share) - now)
      end
      return changed
    end
    changed = true
    if lives then
      hold_together(id, its_expiry, its_info, its_share, its_fence)
      if id ~= asking then
        push(id, its_info, ADMITTED, its_fence, abandoned, 0)
      end
    else
      drop(id)
    end
  end
  return changed
end

-- Of several holders, take out those that have expired. Sets `expires` to when the next one does. False if none
-- is left.
local function drop_expired_holders()
  if share.lasts and not crowded then
    -- After an idle time a whole window of permits has expired. Only the last one needs a look.
    local last_one = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
    if not last_one[1] or -last_one[2] <= now then
      redis.call('PEXPIRE', queue, 0)  -- deletes it
      redis.call('PEXPIRE', tickets, 0)
      return false
    end
  end
  while true do
    local gone = redis.call('ZRANGE', queue, '-' .. integer(now), '(0', 'BYSCORE', 'LIMIT', 0, 500)
    if not gone[1] then
      break
    end
    for _, id in ipairs(gone) do
      local _, _, _, its_share = ticket(id)
      share.weight = share.weight - (its_share and its_share.weight or 0)
    end
    redis.call('ZREM', queue, unpack(gone))
    redis.call('HDEL', tickets, unpack(gone))
  end
  local next = redis.call('ZRANGE', queue, '(0', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  if not next[1] then
    return false
  end
  expires = -next[2]
  return true
end
