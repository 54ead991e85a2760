-- Stands in front of the scripts that are about one name.
--   KEYS[2]  the lock, with its ttl as expiry. The holder here: id, since when (ms), owner
--   KEYS[3]  the trace, for a day longer than the lock: the fence; open (1 until its holder has departed); dirty and
--            clean, the newest fences whose holders ended without a release and with one
--   KEYS[4]  the waiters, "CHANNEL ID OWNER" by when they came: a hint whom to wake, no right to the lock
--   ARGV[2]  ID, of the bid: "TICKET.CLIENT.NUMBER"
local lock, trace, waiters, id = KEYS[2], KEYS[3], KEYS[4], ARGV[2]
local fence, open, dirty, clean = 0, 0, 0, 0
local DAY = 24 * 3600 * 1000
local held, traced = found[2], found[3]
if traced then
  fence, open, dirty, clean = cmsgpack.unpack(traced)
else
  -- The name is new, or was not used for a day. Then its last fence is from before the mark was set, if that was
  -- less than a day ago. (If it is in the future, the clock was set back.)
  local now_ms = clock_ms()
  if now_ms < marked or now_ms - marked > DAY / 2 then
    mark, marked = ceiling, now_ms
    save_node()
  end
  fence = mark
end
local holder = held and cmsgpack.unpack(held)
