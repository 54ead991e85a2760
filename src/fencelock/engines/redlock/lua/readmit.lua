-- Let a blank node vote again, above a fence.
-- ARGV: RUN, SINCE (as `look` said: the node may have lost its data once more since then), FLOOR
-- Returns 1, or 0 if there was nothing to do: a higher floor would end the leases of an intact node.
--[[memory.lua]]
if not blank_ms() or since ~= tonumber(ARGV[2]) then
  return 0
end
intact = 1
floor = math.max(floor, tonumber(ARGV[3]))
ceiling = math.max(ceiling, floor)
save_node()
return 1
