-- Stands in front of every script but one. All work on one name and its three keys, in one hash slot:
--   KEYS[1]  the record: its format, the newest fence, abandoned (0 or 1); while somebody holds the lock
--            also keep, crowded, and of the holder: id, fence, when it expires, since when it holds, info;
--            if it shares, also its share. Crowded is false if nobody waits, true if somebody may, or when the
--            last in the queue expires, unless it is renewed.
--            One value, because every command that a script calls costs as much as all the rest of it.
--   KEYS[2]  the queue, a sorted set: the ids of those who wait, by fence. Once a second one holds, too, also
--            the ids of all who hold, by the negative of when they expire: so they stand in front, and the
--            one that expires first is right ahead of the first that waits. The record's holder is '' then,
--            its expiry no later than the first of theirs, and its share's weight the sum of theirs.
--   KEYS[3]  the tickets of those in the queue, a hash: ID -> when it expires, info, since when it waits or
--            holds, its share, and the fence of one that holds.
-- Times are in µs, info is "CHANNEL OWNER", a share is nil for one who holds alone. Who waits, waits behind
-- a holder: every script leaves a living one in the record, and has told it so. Tickets that expired
-- elsewhere in the queue are taken out when the one behind them looks. So no script reads more than the
-- first ones and one neighbour, however long the queue is.
local record = KEYS[1]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local FORMAT, WITHOUT_SHARES = 'h2', 'h1'
local known = redis.call('GET', record)
local format, last, abandoned, keep, crowded, holder, fence, expires, since, info, share = FORMAT, 0, 0
if known then
  format, last, abandoned, keep, crowded, holder, fence, expires, since, info, share =
    cmsgpack.unpack(known)
  if format ~= FORMAT and format ~= WITHOUT_SHARES then
    return redis.error_reply('WRONGTYPE ' .. record .. ' was not written by this version of Fencelock')
  end
end

-- When the last in the queue expires, if that is known.
local behind = type(crowded) == 'number' and crowded

local WAITING, ADMITTED = 1, 2
local HOUR, DAY = '3600000', '86400000'
