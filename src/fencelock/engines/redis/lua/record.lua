-- Stands in front of every script but one. A script works on one name and its three keys, in one hash slot:
--   KEYS[1]  the record: its format, the newest fence, abandoned (0 or 1). While the name is held also keep,
--            crowded, and of the holder: id, fence, when it expires, since when it holds, info; if it shares, also
--            its share. Crowded is false if no ticket waits, true if one may, or the moment when the last ticket in
--            the queue expires, unless it is renewed.
--            All this is one value, because each command in a script costs as much as all the rest of it.
--   KEYS[2]  the queue, a sorted set: the ids of the waiters, by fence. Once a second ticket holds, also the ids of
--            all holders, by the negative of their expiry. So the holders stand in front, and the one that expires
--            first is right ahead of the first waiter. The record's holder is '' then, its expiry is no later than
--            the first expiry of the holders, and its share's weight is the sum of their weights.
--   KEYS[3]  the tickets in the queue, a hash: ID -> when it expires, info, since when it waits or holds, its share,
--            and the fence of a ticket that holds.
-- A ticket of a rate holds for a fixed time, which is in its share as `lasts`. The record's share of a rate says in
-- `kept` until when the other two keys live at least.
-- Times are in µs. Info is "CHANNEL OWNER". A share is nil for a ticket that holds alone. A waiter waits behind a
-- holder: after each script the record has a living holder if a ticket waits, and the holder was told. Tickets
-- that expired elsewhere in the queue are removed when the ticket behind them looks. So no script reads more than
-- the first tickets and one neighbour, however long the queue is.
local record = KEYS[1]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local FORMAT = 'h2'
local known = redis.call('GET', record)
local format, last, abandoned, keep, crowded, holder, fence, expires, since, info, share = FORMAT, 0, 0
if known then
  format, last, abandoned, keep, crowded, holder, fence, expires, since, info, share =
    cmsgpack.unpack(known)
  if format ~= FORMAT then
    return redis.error_reply('WRONGTYPE ' .. record .. ' was not written by this version of Fencelock')
  end
end

-- When the last ticket in the queue expires, if that is known.
local behind = type(crowded) == 'number' and crowded

local WAITING, ADMITTED = 1, 2
local HOUR, DAY = '3600000', '86400000'
