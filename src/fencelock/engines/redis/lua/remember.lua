-- Store a note for the name, if this ticket holds it.
-- KEYS[4]: the note, a string that expires by itself
-- ARGV: ID, TEXT, KEEP_MS
-- Returns 1, or 0 if it does not hold.
local id = ARGV[1]
--[[saving.lua]]
--[[queue.lua]]
ensure_holder('')
local holds = holder == id
if holder == '' then
  -- It must be in both keys, as in `renewed`: a server that evicts keys may have deleted one of them.
  local score = ticket(id) and redis.call('ZSCORE', queue, id)
  holds = score and tonumber(score) < 0
end
if not holds then
  return 0
end
redis.call('SET', KEYS[4], ARGV[2], 'PX', ARGV[3])
return 1
