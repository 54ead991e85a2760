-- Give the lock back if this very ticket has it here, and wake the next. A blank node does it too.
-- ARGV: RUN, ID, FENCE (under which the ticket held), DEPARTURE ('0': released, '1': lost, '2': withdrawn),
--       CHANNEL, OWNER, WAITED_MS: those of one that will come again, when it is woken after the others;
--       with WAITED_MS '' those of one that waits no more
-- Returns 1, or 0 if it was not there (any more).
local first
if holder == id then
  redis.call('DEL', lock)
  -- Marks that only grow, and the fence that was won, not the one that stands here: then no late or stray
  -- release can hide a crash that came after it.
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
  return 0
end
wake(first)
if ARGV[7] ~= '' then
  wait_here(ARGV[5], tonumber(ARGV[7]), ARGV[6])
end
return 1
