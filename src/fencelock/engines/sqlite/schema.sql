-- A Fencelock lock file. Times are microseconds since boot, except the times of notes. Fences come from the
-- wall clock.

-- The queues. Each name has a row of its own (fence 0) and, behind it and in order, a row for each ticket.
-- A ticket that finds nobody else is stored in the name's own row, so that one statement takes a free lock
-- and one gives it back. The next ticket that comes moves it to a row of its own first. There is one table
-- rather than two because SQLite writes whole pages, and this way a name and its tickets share a page.
CREATE TABLE queue (
    name      TEXT    NOT NULL,
    fence     INTEGER NOT NULL,  -- 0: the name's own row
    -- of a ticket; in the name's own row, of the last ticket that found nobody else
    id        TEXT,              -- its secret; in the name's own row NULL once that ticket has left
    owner     TEXT,              -- a description for people
    joined    INTEGER,
    heard     INTEGER,           -- when it last entered or was renewed
    admitted  INTEGER,           -- NULL while it waits
    expires   INTEGER,           -- NULL whenever the id is NULL
    wake      TEXT,              -- its wake-up address, pipe:number; NULL once admitted
    "group"   TEXT,              -- the group that may hold together; NULL: it holds alone
    weight    INTEGER,           -- how many of the group's permits it takes
    permits   INTEGER,           -- how many permits the group has
    -- of a name
    newest    INTEGER,           -- the last fence handed out; of the ticket in this row, if there is one
    abandoned INTEGER,           -- 1: the last ticket that held alone was not released
    PRIMARY KEY (name, fence)
) STRICT, WITHOUT ROWID;

-- Finds a waiting ticket by its id. Holders are found at the front of their queue, so an uncontended lock
-- never touches this index.
CREATE UNIQUE INDEX waiting ON queue (name, id) WHERE wake IS NOT NULL;

-- The notes that holders have stored.
CREATE TABLE note (
    name  TEXT    NOT NULL PRIMARY KEY,
    text  TEXT    NOT NULL,
    until INTEGER NOT NULL  -- microseconds of the wall clock, because a note outlives the boot
) STRICT;

-- Finds the notes whose time is over.
CREATE INDEX ending ON note (until);

-- One row about the file as a whole.
CREATE TABLE file (
    boot  TEXT    NOT NULL,  -- the boot in which the tickets were made; they are dead in any later boot
    floor INTEGER NOT NULL,  -- no forgotten name had a fence above this
    swept TEXT    NOT NULL   -- the next sweep begins behind this name
) STRICT;
INSERT INTO file VALUES ('', 0, '');
