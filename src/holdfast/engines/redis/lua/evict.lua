-- Take out all who hold, and pass the lock on; one that held alone leaves it abandoned.
-- Returns 1, or 0 if there was none.
--[[the queue]]
settle('')
if not holder then
  return 0
end
if holder == '' then
  redis.call('DEL', sharers)
end
pass_on(share and abandoned or 1, '')
return 1
