-- Whether a bid of this ticket has the lock here, whichever client made it. Changes nothing.
-- ARGV: RUN, ID (of the ticket, or of any of its bids)
-- Returns {GRANTED, fence, dirty, clean}, {REFUSED, 1 if the ticket is listed as a waiter, else 0} or {BLANK, ms}.
--[[waiting.lua]]
local blank = blank_ms()
if blank then
  return {BLANK, blank}
end
if ours() then
  return granted()
end
local me = ticket_of(id)
for _, entry in ipairs(redis.call('ZRANGE', waiters, 0, -1)) do
  if string.match(entry, '^%S+ (%S+)') == me then
    return {REFUSED, 1}
  end
end
return {REFUSED, 0}
