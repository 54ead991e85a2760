-- Let a blank node vote again, above a fence.
-- ARGV: RUN, SINCE (as `look` said: if it has forgotten again meanwhile, this is not about that), FLOOR
-- Returns 1, or 0 if there was nothing to do: to lift the floor of a intact node would unseat its holders.
--[[memory.lua]]
if not blank_ms() or since ~= tonumber(ARGV[2]) then
  return 0
end
intact = 1
floor = math.max(floor, tonumber(ARGV[3]))
ceiling = math.max(ceiling, floor)
save_node()
return 1
