-- What the node has to remember, or has forgotten: most scripts are done before they come here, and Lua makes
-- each function anew in each call.

-- How long it has been blank (ms), from the first time that somebody noticed; nil if it is intact.
local function blank_ms()
  if run ~= ARGV[1] then
    run, intact, since = ARGV[1], 0, clock_ms()
    save_node()
  end
  if intact == 0 then
    return math.max(0, clock_ms() - since)
  end
end

-- Keep the two marks above everything that is granted here. The ceiling leaps ahead, by a minute of µs, so
-- that this is seldom a write.
local function cover(fence, ttl_ms)
  if fence > ceiling or ttl_ms > longest then
    ceiling = fence > ceiling and fence + 60000000 or ceiling
    longest = math.max(longest, ttl_ms)
    save_node()
  end
end
