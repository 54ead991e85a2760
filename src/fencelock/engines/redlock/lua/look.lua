-- What the node knows about itself.
-- ARGV: RUN
-- Returns {intact (0 or 1), when it was found blank (ms), ms since then, ceiling, longest ttl in ms}.
--[[memory.lua]]
local blank = blank_ms()
return {intact, since, blank or 0, ceiling, longest}
