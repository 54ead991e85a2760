-- Take out all who hold, and pass the lock on; one that held alone leaves it abandoned.
-- Returns 1, or 0 if there was none.
--[[saving.lua]]
--[[queue.lua]]
settle('')
if not holder then
  return 0
end
pass_on(share and abandoned or 1, '')
return 1
