-- Whose turn it is, and where others stand.

-- Nobody holds it any more: make the first living ticket the holder, and let in whoever fits beside it. The
-- dead ones in between never held the lock, so they don't count as abandoned.
local function pass_on(flag, asking)
  holder, share, abandoned = nil, nil, flag
  while true do
    local first = redis.call('ZPOPMIN', queue)
    local id = first[1]
    if not id then
      save()
      return
    end
    local its_expiry, its_info, _, its_share = waiter(id)
    redis.call('HDEL', waiters, id)
    if its_expiry and its_expiry > now then
      -- crowded: to look whether anybody else waits would cost more than to find nobody next time.
      crowded, holder, fence, expires, since, info = true, id, tonumber(first[2]), its_expiry, now, its_info
      if id ~= asking then
        tell(id, info, ADMITTED, fence, abandoned, 0)
      end
      if its_share then
        share, used = its_share, its_share.weight
        admit(asking)
      end
      save()
      return
    end
  end
end

-- See to it that a living ticket holds, if there is one, and that whoever fits beside it does, too.
local function settle(asking)
  if holder == '' and expires <= now then
    if bury() then
      admit(asking)
      save()
    else
      pass_on(abandoned, asking)
    end
  elseif holder and expires <= now then
    pass_on(share and abandoned or 1, asking)
  elseif share then
    if admit(asking) then
      save()
    end
  elseif not holder and redis.call('EXISTS', queue) == 1 then
    -- A server that evicts keys has dropped the record.
    pass_on(abandoned, asking)
  end
end

-- {place, fence, abandoned, recheck_us} of a living ticket that waits behind a living holder.
local function waiting(its_fence)
  while true do
    local ahead = redis.call('ZRANGE', queue, '(' .. integer(its_fence), '-inf',
      'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
    local its_expiry = expires
    if ahead then
      its_expiry = waiter(ahead) or 0
    end
    if its_expiry > now then
      return {WAITING, its_fence, 0, its_expiry - now}
    end
    drop(ahead)
  end
end

-- Renew a ticket that holds or waits, and say where it stands; nil if it is not there.
-- Never sooner than promised before: this may be a late request with a shorter ttl.
local function renewed(id, ttl_us, new_info)
  local longer = rely(ttl_us)
  if holder == id then
    expires, info = math.max(expires, now + ttl_us), new_info or info
    save()
    return {ADMITTED, fence, abandoned, 0}
  end
  local its_expiry, its_info, its_since, its_share, its_fence = sharer(id)
  if its_expiry then
    write_sharer(id, math.max(its_expiry, now + ttl_us), new_info or its_info, its_since, its_share, its_fence)
    save()
    return {ADMITTED, its_fence, abandoned, 0}
  end
  if not crowded then
    return
  end
  its_expiry, its_info, its_since, its_share = waiter(id)
  if its_expiry then
    -- In both keys, or it is a newcomer: a server that evicts keys may have dropped one of the two.
    its_fence = its_expiry > now and redis.call('ZSCORE', queue, id)
    if its_fence then
      if longer then
        save()
      end
      write(id, math.max(its_expiry, now + ttl_us), new_info or its_info, its_since, its_share)
      return waiting(tonumber(its_fence))
    end
    drop(id)
  end
end
