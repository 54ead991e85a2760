-- The standing of a ticket that does not hold alone.

-- {place, fence, abandoned, recheck_us} of a living ticket that waits behind a living holder, and the id of the
-- ticket in the queue right ahead of it.
local function waiting(its_fence, its_share)
  while true do
    local ahead = redis.call('ZRANGE', queue, '(' .. integer(its_fence), '-inf',
      'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
    local its_expiry = expires
    if ahead then
      local first_expiry, _, _, _, fence_ahead = ticket(ahead)
      its_expiry = first_expiry or 0
      if fence_ahead and its_share and its_share.lasts then
        its_expiry = room_at(its_share)
      end
    end
    if its_expiry > now then
      return {WAITING, its_fence, 0, its_expiry - now}, ahead
    end
    drop(ahead)
  end
end

-- Renew a ticket that holds or waits, and return its standing; nil if it is not there.
-- It never expires sooner than promised: this may be a late request with a shorter ttl.
local function renewed(id, ttl_us, new_info)
  local longer = extend_keep(ttl_us)
  if holder == id then
    expires, info = share and share.lasts and expires or math.max(expires, now + ttl_us), new_info or info
    save()
    return {ADMITTED, fence, abandoned, 0}
  end
  if not crowded and holder ~= '' then
    return
  end
  local its_expiry, its_info, its_since, its_share, its_fence = ticket(id)
  if not its_expiry then
    return
  end
  -- If it is not in both keys, it is a new ticket: a server that evicts keys may have deleted one of them.
  local score = its_expiry > now and redis.call('ZSCORE', queue, id)
  if not score then
    drop(id)
    return
  end
  its_info = new_info or its_info
  if tonumber(score) > 0 or not (its_share and its_share.lasts) then
    its_expiry = math.max(its_expiry, now + ttl_us)
  end
  if tonumber(score) < 0 then
    write(id, its_expiry, its_info, its_since, its_share, its_fence)
    save()
    return {ADMITTED, its_fence, abandoned, 0}
  end
  if longer then
    save()
  end
  write(id, its_expiry, its_info, its_since, its_share)
  return (waiting(tonumber(score), its_share))
end
