-- What the node has to remember, or has lost. Most scripts end before they come here: Lua makes each function anew
-- in each call.

-- How long it has been blank (ms), since that was first noticed; nil if it is intact.
local function blank_ms()
  if run ~= ARGV[1] then
    run, intact, since = ARGV[1], 0, clock_ms()
    save_node()
  end
  if intact == 0 then
    return math.max(0, clock_ms() - since)
  end
end

-- Keep the ceiling and the longest ttl at least as high as everything granted here. The ceiling leaps ahead, by a
-- minute in µs, so that this is seldom a write.
local function cover(fence, ttl_ms)
  if fence > ceiling or ttl_ms > longest then
    ceiling = fence > ceiling and fence + 60000000 or ceiling
    longest = math.max(longest, ttl_ms)
    save_node()
  end
end
