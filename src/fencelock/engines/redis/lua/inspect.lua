-- Who holds and who waits.
-- ARGV: LIMIT (how many waiters to list)
-- Returns {last, abandoned, {holder...}, number of waiters, {waiter...}}, the waiters in the order of the queue.
-- Each ticket is without its id: {fence, expires in (µs), holds or waits for (µs), owner, group, weight, permits}.
--[[saving.lua]]
--[[queue.lua]]
ensure_holder('')
local holders, listed = {}, {}
if not holder then
  return {last, abandoned, holders, 0, listed}
end

local function show(list, its_fence, its_expiry, its_since, its_info, its_share)
  local owner = string.match(its_info, '^%S+ (.*)$')
  list[#list + 1] = {its_fence, its_expiry - now, math.max(0, now - its_since), owner}
  if its_share then
    for _, value in ipairs({its_share.group, its_share.weight, its_share.permits}) do
      table.insert(list[#list], value)
    end
  end
end

local count = redis.call('ZCARD', queue)
if holder ~= '' then
  show(holders, fence, expires, since, info, share)
else
  local ids = redis.call('ZRANGE', queue, '-inf', '(0', 'BYSCORE')
  count = count - #ids
  for _, id in ipairs(ids) do
    local its_expiry, its_info, its_since, its_share, its_fence = ticket(id)
    if its_fence then
      show(holders, its_fence, its_expiry, its_since, its_info, its_share)
    end
  end
end

local limit = tonumber(ARGV[1])
local ids = limit > 0 and redis.call('ZRANGE', queue, '(0', '+inf', 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES') or {}
for at = 1, #ids, 2 do
  local its_expiry, its_info, its_since, its_share = ticket(ids[at])
  if its_expiry and its_expiry > now then
    show(listed, tonumber(ids[at + 1]), its_expiry, its_since, its_info, its_share)
  else
    count = count - 1
  end
end
return {last, abandoned, holders, count, listed}
