-- Every statement the engine runs after the file is open, each with its arguments, in order.

-- take (name, fence, id, owner, now, expires, group, weight, permits): a name that is free, not abandoned,
-- and knows of no such fence; the ticket stands in the name's own row. Finding a statement takes the longer
-- the longer it is, hence the columns without their names: in their order in the table
INSERT INTO queue
SELECT ?1, 0, ?3, ?4, NULL, ?5, ?5, ?6, NULL, ?7, ?8, ?9, ?2, 0 FROM file WHERE floor < ?2
    ON CONFLICT DO UPDATE
   SET newest = ?2, id = ?3, owner = ?4, heard = ?5, admitted = ?5, expires = ?6,
       "group" = ?7, weight = ?8, permits = ?9
 WHERE id IS NULL AND newest < ?2 AND NOT abandoned
   AND NOT EXISTS (SELECT 1 FROM queue WHERE name = ?1 AND fence > 0)

-- give (name, id, now): back a name, of the ticket in the name's own row, if it lives
UPDATE queue SET id = NULL, expires = NULL WHERE name = ?1 AND fence = 0 AND id = ?2 AND expires > ?3

-- prolong (name, id, owner, now, expires): the ticket in the name's own row, if it lives; as `extend`
UPDATE queue SET owner = ?3, heard = ?4, expires = max(expires, ?5)
 WHERE name = ?1 AND fence = 0 AND id = ?2 AND expires > ?4
RETURNING newest

-- apart (name): the ticket in the name's own row gets one of its own
INSERT INTO queue (name, fence, id, owner, joined, heard, admitted, expires, "group", weight, permits)
SELECT name, newest, id, owner, admitted, heard, admitted, expires, "group", weight, permits FROM queue
 WHERE name = ?1 AND fence = 0

-- vacate (name): its row has no ticket any more
UPDATE queue SET id = NULL, expires = NULL WHERE name = ?1 AND fence = 0

-- look (name): the name itself (0, the id of the ticket in its row, newest, abandoned), and the first two
-- tickets of its queue (fence, id, expires, group). They share columns because each one costs time
SELECT fence, id, coalesce(newest, expires), coalesce(abandoned, "group") FROM queue
 WHERE name = ?1 ORDER BY fence LIMIT 3

-- crowd (name): those who share a name, as a whole: they stand ahead of the first who waits
SELECT count(*), max("group"), sum(weight), min(expires), max(fence) FROM queue
 WHERE name = ?1 AND fence > 0 AND fence < coalesce(
   (SELECT fence FROM queue WHERE name = ?1 AND fence > 0 AND admitted IS NULL ORDER BY fence LIMIT 1),
   9223372036854775807)

-- sharer (name, last, id): one of those who share a name
SELECT fence, weight FROM queue WHERE name = ?1 AND fence > 0 AND fence <= ?2 AND id = ?3

-- sharers (name, last): all of those who share a name
SELECT id, fence FROM queue WHERE name = ?1 AND fence > 0 AND fence <= ?2

-- find (name, id): a waiting ticket
SELECT fence, expires, wake FROM queue WHERE name = ?1 AND id = ?2 AND wake IS NOT NULL

-- ahead (name, fence): the ticket directly ahead of one
SELECT fence, expires, wake FROM queue
 WHERE name = ?1 AND fence < ?2 AND fence > 0 ORDER BY fence DESC LIMIT 1

-- behind (name, fence): the ticket directly behind one
SELECT fence, id, expires, wake, "group", weight, permits FROM queue
 WHERE name = ?1 AND fence > ?2 ORDER BY fence LIMIT 1

-- flag (name, abandoned): how the last one that held alone ended
UPDATE queue SET abandoned = ?2 WHERE name = ?1 AND fence = 0

-- join (name, fence, id, owner, now, admitted, expires, wake): a new ticket, whose fence is its
-- name's newest now
INSERT INTO queue (name, fence, newest, abandoned, id, owner, joined, heard, admitted, expires, wake)
VALUES (?1, 0, ?2, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
       (?1, ?2, NULL, NULL, ?3, ?4, ?5, ?5, ?6, ?7, ?8)
    ON CONFLICT (name, fence) DO UPDATE SET newest = excluded.newest

-- share (name, fence, group, weight, permits): a ticket that may hold with others from now on
UPDATE queue SET "group" = ?3, weight = ?4, permits = ?5 WHERE name = ?1 AND fence = ?2

-- extend (name, fence, owner, now, expires): a ticket that was heard of; never sooner than promised
-- before, because this may be an old request with a shorter ttl
UPDATE queue SET owner = ?3, heard = ?4, expires = max(expires, ?5) WHERE name = ?1 AND fence = ?2

-- redirect (name, fence, wake): a waiting ticket that listens elsewhere now
UPDATE queue SET wake = ?3 WHERE name = ?1 AND fence = ?2

-- admit (name, fence, admitted): a waiting ticket whose turn has come
UPDATE queue SET admitted = ?3, wake = NULL WHERE name = ?1 AND fence = ?2

-- remove (name, fence): a ticket
DELETE FROM queue WHERE name = ?1 AND fence = ?2

-- clear (name, last, moment): those who share a name and expire by that moment
DELETE FROM queue WHERE name = ?1 AND fence > 0 AND fence <= ?2 AND expires <= ?3

-- note (name, text, until): what is to be known of a name until a moment of the wall clock
INSERT INTO note VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET text = excluded.text, until = excluded.until

-- recall (name, now): what was noted down
SELECT text FROM note WHERE name = ?1 AND until > ?2

-- list (name, now, limit): the living tickets of a name, in order
SELECT owner, fence, joined, admitted, expires, "group", weight, permits FROM queue
 WHERE name = ?1 AND fence > 0 AND expires > ?2 ORDER BY fence LIMIT ?3

-- count (name, now): how many live
SELECT count(*) FROM queue WHERE name = ?1 AND fence > 0 AND expires > ?2

-- names (now): the names that are held or waited for
SELECT DISTINCT name FROM queue WHERE expires > ?1

-- file (): what is known of the file as a whole
SELECT floor, swept FROM file

-- stretch (name, size): the last of the next so many names
SELECT max(name), count(*) FROM
  (SELECT name FROM queue WHERE fence = 0 AND name > ?1 ORDER BY name LIMIT ?2)

-- dead (first, last, now): names in a stretch of which a holder has expired
SELECT DISTINCT name FROM queue
 WHERE name > ?1 AND name <= ?2 AND admitted IS NOT NULL AND expires <= ?3

-- forget (first, last, released, abandoned, ahead): names in a stretch that nobody has used since
-- these moments, or that were last used while the clock was ahead of that one
DELETE FROM queue
 WHERE name > ?1 AND name <= ?2 AND fence = 0 AND id IS NULL
   AND (newest < iif(abandoned, ?4, ?3) OR newest > ?5 AND NOT abandoned)
   AND NOT EXISTS (SELECT 1 FROM queue AS t WHERE t.name = queue.name AND t.fence > 0)
RETURNING newest

-- discard (now, size): so many of the notes whose time is up
DELETE FROM note WHERE rowid IN (SELECT rowid FROM note WHERE until <= ?1 ORDER BY until LIMIT ?2)

-- swept (floor, swept): how far the sweep has come
UPDATE file SET floor = ?1, swept = ?2

-- boot (): the boot in which the tickets were made
SELECT boot FROM file

-- expire (since): the tickets last heard of after that moment
UPDATE queue SET expires = 0 WHERE expires > 0 AND heard > ?1

-- booted (boot): from now on they are made in this one
UPDATE file SET boot = ?1
