-- Renew a holder. Never brings a ticket back.
-- The fence must still be the holder's. If it is higher, the lock was lost here, a late request of the same ticket
-- took it again, and others may have held it in between.
-- ARGV: RUN, ID, TTL_MS, FENCE
-- Returns 1 (extended), 0 (gone) or 2 (the node is blank).
--[[waiting.lua]]
if blank_ms() then
  return BLANK
end
if not mine() or fence ~= tonumber(ARGV[4]) then
  return 0
end
extend(tonumber(ARGV[3]))
return 1
