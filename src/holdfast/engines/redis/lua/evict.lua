-- Take out the holder, whoever it is, and pass the lock on as abandoned.
-- Returns 1, or 0 if there was none.
--[[queue.lua]]
settle('')
if not holder then
  return 0
end
pass_on(1, '')
return 1
