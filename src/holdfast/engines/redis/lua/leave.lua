-- Take out this very ticket, and tell whom this admits.
-- ARGV: ID, DEPARTURE ('0': released, '1': lost, '2': withdrawn, so the flag stays as it is)
-- Returns 1, or 0 if it was not there (any more).
local id = ARGV[1]
local flag = ARGV[2] ~= '2' and tonumber(ARGV[2])

-- Nobody waits, as in most cases.
if holder == id and not crowded and expires > now then
  abandoned = not share and flag or abandoned
  redis.call('SET', record, cmsgpack.pack(FORMAT, last, abandoned), 'PX', abandoned == 1 and DAY or HOUR)
  return 1
end

--[[saving.lua]]
--[[queue.lua]]

-- One that leaves from further behind may be the first to notice that the holder has expired.
settle(id)
if holder == id then
  pass_on(not share and flag or abandoned, '')
  return 1
end

--[[standing.lua]]

local its_expiry, _, _, its_share = ticket(id)
if not its_expiry then
  return 0
end
local score = redis.call('ZSCORE', queue, id)
drop(id)
if score and tonumber(score) < 0 then
  share.weight = share.weight - its_share.weight
  if bury() then
    admit('')
    save()
  else
    pass_on(abandoned, '')
  end
  return 1
end

-- It may have kept those behind it out, though they fit.
if share and admit('') then
  save()
end
-- The one behind now stands behind someone else: it should look again when that one expires.
local behind = score and redis.call('ZRANGE', queue, '(' .. score, '+inf',
  'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES') or {}
if behind[1] then
  local _, its_info = ticket(behind[1])
  if its_info then
    tell(behind[1], its_info, unpack((waiting(tonumber(behind[2])))))
  end
end
return its_expiry > now and 1 or 0
