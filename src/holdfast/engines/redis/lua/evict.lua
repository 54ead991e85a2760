-- Take out the holder, whoever it is, and pass the lock on as abandoned.
-- Returns 1, or 0 if there was none.
local id = holder('')
if not id then
  return 0
end
drop(id)
pass_on('1', '')
return 1
