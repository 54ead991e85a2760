-- Renew a ticket that has the lock here under another bid, and make it the lock of this bid.
-- The other bid is of another client, which may still release it because its answers came too late. That release
-- does nothing any more.
-- ARGV: RUN, ID, TTL_MS, FENCE (as for renew), OWNER, CHANNEL (where it waited, or '')
-- Returns 1 (extended), 0 (gone) or 2 (the node is blank).
--[[waiting.lua]]
if blank_ms() then
  return BLANK
end
if not ours() or fence ~= tonumber(ARGV[4]) then
  return 0
end
local _, since_ms = cmsgpack.unpack(held)
redis.call('SET', lock, cmsgpack.pack(id, since_ms, ARGV[5]), 'KEEPTTL')
extend(tonumber(ARGV[3]))
if ARGV[6] ~= '' then
  wait_no_more(ARGV[6], ARGV[5])
end
return 1
