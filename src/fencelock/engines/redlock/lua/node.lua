-- Stands in front of every script.
--   KEYS[1]  what the node knows about itself, without expiry: the process that was last readmitted, whether the
--            node is intact, since when (ms), floor, ceiling, the longest ttl granted (ms), mark and when it was
--            set (ms)
--   ARGV[1]  RUN: the server's run_id, which the client reads on every new connection. A connection does not
--            outlive the server's process, so this is the process that runs the script.
-- A node whose process is not the one that was readmitted may have lost any data: it is blank.
-- All fences granted since then are above the floor. No fence of any name is above the ceiling, and no fence from
-- before the mark was set is above the mark.
local REFUSED, GRANTED, BLANK = 0, 1, 2

local found = redis.call('MGET', unpack(KEYS, 1, math.min(3, #KEYS)))  -- a name's lock and trace, too
local me = found[1]
local run, intact, since, floor, ceiling, longest, mark, marked = '', 0, 0, 0, 0, 0, 0, 0
if me then
  run, intact, since, floor, ceiling, longest, mark, marked = cmsgpack.unpack(me)
end

local function clock_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function save_node()
  redis.call('SET', KEYS[1], cmsgpack.pack(run, intact, since, floor, ceiling, longest, mark, marked))
end
