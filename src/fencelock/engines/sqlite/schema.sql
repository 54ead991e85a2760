-- A Fencelock lock file. Times are microseconds since boot, but for those of notes; fences come from
-- the wall clock.

-- Queues: what is remembered of each name (its row with fence 0) and behind it, in order, the
-- name's tickets. A ticket that came while nobody else was there stands in its name's own row, so that
-- one statement takes a free lock and one gives it back; whoever comes next gives it a row first. One table
-- rather than two, because SQLite writes whole pages: a name and its tickets are neighbours.
CREATE TABLE queue (
    name      TEXT    NOT NULL,
    fence     INTEGER NOT NULL,  -- 0: the name itself
    -- of a ticket; in the row of a name, of the one that came last while nobody else was there
    id        TEXT,              -- its secret; NULL once such a one has left, and so is `expires`
    owner     TEXT,              -- who, for people
    joined    INTEGER,
    heard     INTEGER,           -- when it last asked or was renewed
    admitted  INTEGER,           -- NULL while it waits
    expires   INTEGER,
    wake      TEXT,              -- where to wake it: pipe:number; NULL once admitted
    "group"   TEXT,              -- with whom it may hold; NULL: with nobody
    weight    INTEGER,           -- how many of the group's permits it takes
    permits   INTEGER,           -- how many there are
    -- of a name
    newest    INTEGER,           -- the last fence handed out: that of the ticket in the same row
    abandoned INTEGER,           -- 1: the last one that held alone did not release
    PRIMARY KEY (name, fence)
) STRICT, WITHOUT ROWID;

-- Finds a waiting ticket by its id. Those who hold are found at the head of their queue, so that an
-- uncontended lock never touches this index.
CREATE UNIQUE INDEX waiting ON queue (name, id) WHERE wake IS NOT NULL;

-- What holders have noted down for those who come later.
CREATE TABLE note (
    name  TEXT    NOT NULL PRIMARY KEY,
    text  TEXT    NOT NULL,
    until INTEGER NOT NULL  -- by the wall clock in microseconds, for it outlives the boot
) STRICT;

-- Finds those whose time is up.
CREATE INDEX ending ON note (until);

-- One row about the file as a whole.
CREATE TABLE file (
    boot  TEXT    NOT NULL,  -- the boot in which the tickets were made: a later one finds them dead
    floor INTEGER NOT NULL,  -- no forgotten name ever had a fence above this
    swept TEXT    NOT NULL   -- the sweep for forgotten names goes on behind this one
) STRICT;
INSERT INTO file VALUES ('', 0, '');
