-- Release the lock if this ticket has it here, and wake the next waiter. A blank node does it too.
-- ARGV: RUN, ID, FENCE (under which the ticket held), DEPARTURE ('0': released, '1': lost, '2': withdrawn),
--       CHANNEL, OWNER, WAITED_MS: of a ticket that stays listed as a waiter; with WAITED_MS '' the ticket is
--       taken off the list
-- Returns 1, 0 if it was not there, or 2 if another bid of the same ticket is.
local first
if holder == id then
  redis.call('DEL', lock)
  -- These only grow, and `clean` is the fence that was won, not the one that is stored here. So no late release can
  -- hide a crash that came after it.
  if ARGV[4] == '0' then
    clean = math.max(clean, tonumber(ARGV[3]))
  elseif ARGV[4] == '1' then
    dirty = fence
  end
  redis.call('SET', trace, cmsgpack.pack(fence, 0, dirty, clean), 'PX', DAY)
  first = redis.call('ZPOPMIN', waiters)[1]
  if not first and ARGV[7] == '' then
    return 1
  end
end

--[[waiting.lua]]

if holder ~= id then
  if ARGV[7] == '' then
    wait_no_more(ARGV[5], ARGV[6])
  end
  return ours() and 2 or 0
end
wake(first)
if ARGV[7] ~= '' then
  wait_here(ARGV[5], tonumber(ARGV[7]), ARGV[6])
end
return 1
