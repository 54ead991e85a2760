-- Stands in front of the scripts that are about one name.
--   KEYS[2]  the lock, with its ttl as expiry: who has it here: id, since when (ms), owner
--   KEYS[3]  the trace, for a day longer than the lock: the fence, open (1 until whoever got it has departed),
--            dirty, clean: the newest fences whose holders went without a word, and as they should
--   KEYS[4]  those who wait, "CHANNEL ID OWNER" by when they came: only a hint whom to wake, nobody's right
--   ARGV[2]  ID, of the bid: "TICKET.NUMBER"
local lock, trace, waiters, id = KEYS[2], KEYS[3], KEYS[4], ARGV[2]
local fence, open, dirty, clean = 0, 0, 0, 0
local DAY = 24 * 3600 * 1000
local held, traced = found[2], found[3]
if traced then
  fence, open, dirty, clean = cmsgpack.unpack(traced)
else
  -- New, or not used for a day: then its last fence is from before the mark, as long as that is not older.
  -- (Nor in the future: the clock was set back.)
  local now_ms = clock_ms()
  if now_ms < marked or now_ms - marked > DAY / 2 then
    mark, marked = ceiling, now_ms
    save_node()
  end
  fence = mark
end
local holder = held and cmsgpack.unpack(held)
