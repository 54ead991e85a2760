-- Every statement that the engine runs after the file is open, each with its arguments, in order.

-- take (name, fence, id, owner, now, expires, group, weight, permits): hold a name that is free, is not
-- abandoned and has had no higher fence. The ticket is written into the name's own row. A longer statement
-- takes longer to find, so the columns have no names here: they are in the order of the table
INSERT INTO queue
SELECT ?1, 0, ?3, ?4, NULL, ?5, ?5, ?6, NULL, ?7, ?8, ?9, ?2, 0 FROM file WHERE floor < ?2
    ON CONFLICT DO UPDATE
   SET newest = ?2, id = ?3, owner = ?4, heard = ?5, admitted = ?5, expires = ?6,
       "group" = ?7, weight = ?8, permits = ?9
 WHERE id IS NULL AND newest < ?2 AND NOT abandoned
   AND NOT EXISTS (SELECT 1 FROM queue WHERE name = ?1 AND fence > 0)

-- give_back (name, id, now): release the ticket in the name's own row, if it is alive
UPDATE queue SET id = NULL, expires = NULL WHERE name = ?1 AND fence = 0 AND id = ?2 AND expires > ?3

-- renew_uncontended (name, id, owner, now, expires): renew the ticket in the name's own row, if it is
-- alive; see `extend`
UPDATE queue SET owner = ?3, heard = ?4, expires = iif("group" GLOB 'rate *', expires, max(expires, ?5))
 WHERE name = ?1 AND fence = 0 AND id = ?2 AND expires > ?4
RETURNING newest

-- copy_name_ticket (name): give the ticket in the name's own row a row of its own
INSERT INTO queue (name, fence, id, owner, joined, heard, admitted, expires, "group", weight, permits)
SELECT name, newest, id, owner, admitted, heard, admitted, expires, "group", weight, permits FROM queue
 WHERE name = ?1 AND fence = 0

-- clear_name_ticket (name): remove the ticket from the name's own row
UPDATE queue SET id = NULL, expires = NULL WHERE name = ?1 AND fence = 0

-- look (name): the name itself (0, the id of the ticket in its row, newest, abandoned), and the first two
-- tickets of its queue (fence, id, expires, group). They share columns because each column costs time
SELECT fence, id, coalesce(newest, expires), coalesce(abandoned, "group") FROM queue
 WHERE name = ?1 ORDER BY fence LIMIT 3

-- group (name): the tickets that share a name, taken together: all tickets ahead of the first waiter
SELECT count(*), max("group"), sum(weight), min(expires), max(fence) FROM queue
 WHERE name = ?1 AND fence > 0 AND fence < coalesce(
   (SELECT fence FROM queue WHERE name = ?1 AND fence > 0 AND admitted IS NULL ORDER BY fence LIMIT 1),
   9223372036854775807)

-- member (name, last, id): one of the tickets that share a name
SELECT fence, weight FROM queue WHERE name = ?1 AND fence > 0 AND fence <= ?2 AND id = ?3

-- members (name, last): all tickets that share a name
SELECT id, fence FROM queue WHERE name = ?1 AND fence > 0 AND fence <= ?2

-- find (name, id): a waiting ticket
SELECT fence, expires, wake FROM queue WHERE name = ?1 AND id = ?2 AND wake IS NOT NULL

-- ahead (name, fence): the ticket directly ahead of a fence
SELECT fence, expires, wake FROM queue
 WHERE name = ?1 AND fence < ?2 AND fence > 0 ORDER BY fence DESC LIMIT 1

-- behind (name, fence): the ticket directly behind a fence
SELECT fence, id, expires, wake, "group", weight, permits FROM queue
 WHERE name = ?1 AND fence > ?2 ORDER BY fence LIMIT 1

-- flag (name, abandoned): set whether the last ticket that held alone was abandoned
UPDATE queue SET abandoned = ?2 WHERE name = ?1 AND fence = 0

-- join (name, fence, id, owner, now, admitted, expires, wake): add a ticket; its fence becomes the newest
-- of its name
INSERT INTO queue (name, fence, newest, abandoned, id, owner, joined, heard, admitted, expires, wake)
VALUES (?1, 0, ?2, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
       (?1, ?2, NULL, NULL, ?3, ?4, ?5, ?5, ?6, ?7, ?8)
    ON CONFLICT (name, fence) DO UPDATE SET newest = excluded.newest

-- share (name, fence, group, weight, permits): put a ticket into a group
UPDATE queue SET "group" = ?3, weight = ?4, permits = ?5 WHERE name = ?1 AND fence = ?2

-- extend (name, fence, owner, now, expires): renew a ticket. It never expires sooner than promised
-- before, because this may be an old request with a shorter ttl. The permit of a rate ends when it ends
UPDATE queue SET owner = ?3, heard = ?4,
       expires = iif(admitted AND "group" GLOB 'rate *', expires, max(expires, ?5))
 WHERE name = ?1 AND fence = ?2

-- redirect (name, fence, wake): a waiting ticket listens at another address now
UPDATE queue SET wake = ?3 WHERE name = ?1 AND fence = ?2

-- admit (name, fence, admitted, expires): a waiting ticket holds from now on
UPDATE queue SET admitted = ?3, expires = ?4, wake = NULL WHERE name = ?1 AND fence = ?2

-- soonest (name, last, size): the first holders of a rate, which expire first
SELECT weight, expires FROM queue
 WHERE name = ?1 AND fence > 0 AND fence <= ?2 ORDER BY fence LIMIT ?3

-- remove (name, fence): delete a ticket
DELETE FROM queue WHERE name = ?1 AND fence = ?2

-- clear (name, last, moment): delete the tickets that share a name and expire by that moment
DELETE FROM queue WHERE name = ?1 AND fence > 0 AND fence <= ?2 AND expires <= ?3

-- note (name, text, until): store a note until a moment of the wall clock
INSERT INTO note VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET text = excluded.text, until = excluded.until

-- recall (name, now): the note of a name
SELECT text FROM note WHERE name = ?1 AND until > ?2

-- list (name, now, limit): the live tickets of a name, in order
SELECT owner, fence, joined, admitted, expires, "group", weight, permits FROM queue
 WHERE name = ?1 AND fence > 0 AND expires > ?2 ORDER BY fence LIMIT ?3

-- count (name, now): the number of live tickets of a name
SELECT count(*) FROM queue WHERE name = ?1 AND fence > 0 AND expires > ?2

-- names (now): the names that are held or waited for
SELECT DISTINCT name FROM queue WHERE expires > ?1

-- file (): the facts about the file as a whole
SELECT floor, swept FROM file

-- stretch (name, size): the last name of the next `size` names, and how many there are
SELECT max(name), count(*) FROM
  (SELECT name FROM queue WHERE fence = 0 AND name > ?1 ORDER BY name LIMIT ?2)

-- expired (first, last, now): the names in a stretch that have an expired holder
SELECT DISTINCT name FROM queue
 WHERE name > ?1 AND name <= ?2 AND admitted IS NOT NULL AND expires <= ?3

-- forget (first, last, released, abandoned, ahead): delete the names in a stretch that have not been used
-- since these moments, or that were last used while the clock was ahead of the moment `ahead`
DELETE FROM queue
 WHERE name > ?1 AND name <= ?2 AND fence = 0 AND id IS NULL
   AND (newest < iif(abandoned, ?4, ?3) OR newest > ?5 AND NOT abandoned)
   AND NOT EXISTS (SELECT 1 FROM queue AS t WHERE t.name = queue.name AND t.fence > 0)
RETURNING newest

-- discard (now, size): delete up to `size` notes whose time is over
DELETE FROM note WHERE rowid IN (SELECT rowid FROM note WHERE until <= ?1 ORDER BY until LIMIT ?2)

-- swept (floor, swept): store how far the sweep has come
UPDATE file SET floor = ?1, swept = ?2

-- boot (): the boot in which the tickets were made
SELECT boot FROM file

-- expire (since): let the tickets expire that were last heard of after that moment
UPDATE queue SET expires = 0 WHERE expires > 0 AND heard > ?1

-- booted (boot): from now on tickets are made in this boot
UPDATE file SET boot = ?1
