-- Who holds and who waits.
-- ARGV: LIMIT (how many waiters to list)
-- Returns {last, abandoned, how long the holder has held (µs), how many stand in the queue, ticket...},
-- each ticket without its id: {fence, expires in (µs), joined ago (µs), owner}.
holder('')
local known = redis.call('HMGET', record, 'last', 'abandoned', 'since')
local answer = {known[1] or '0', known[2] or '0', integer(now - (known[3] or now)), redis.call('ZCARD', queue)}
local ids = redis.call('ZRANGE', queue, 0, ARGV[1], 'WITHSCORES')
for index = 1, #ids, 2 do
  local id, fence = ids[index], ids[index + 1]
  local fields = redis.call('HMGET', record, id, 'i' .. id)
  if alive(fields[1]) then
    -- A fence is the time of joining, unless the clock was set back.
    local owner = string.match(fields[2], '^%S+ (.*)$')
    answer[#answer + 1] = {integer(fence), integer(fields[1] - now), integer(math.max(0, now - fence)), owner}
  else
    answer[4] = answer[4] - 1
  end
end
return answer
