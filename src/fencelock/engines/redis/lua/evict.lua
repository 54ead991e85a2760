-- Take out all holders, and hand the lock over. A holder that held alone leaves it abandoned.
-- Returns 1, or 0 if there was no holder.
--[[saving.lua]]
--[[queue.lua]]
ensure_holder('')
if not holder then
  return 0
end
hand_over(share and abandoned or 1, '')
return 1
