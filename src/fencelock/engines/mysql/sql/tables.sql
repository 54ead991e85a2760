-- The tables of Fencelock. Times are µs since 1970 by the server's clock. Fences come from the same clock.

-- What is remembered of each name. The same row has its holder, if that holds alone: so to take and release
-- a lock without contention changes one row. Names are bytes: no collation makes two names equal.
CREATE TABLE IF NOT EXISTS fencelock_names (
    name      VARBINARY(512) NOT NULL PRIMARY KEY,
    newest    BIGINT         NOT NULL,                -- the last fence handed out
    abandoned BOOLEAN        NOT NULL DEFAULT FALSE,  -- the last exclusive holder ended without a release
    queued    BOOLEAN        NOT NULL DEFAULT FALSE,  -- there may be tickets
    nudged    VARBINARY(64),                          -- the id of a waiter that should look again
    -- The holder. If id is NULL, no ticket holds the name, and none waits.
    id        VARBINARY(64),                          -- its secret id; '' if several tickets share the name
    fence     BIGINT,                                 -- the newest of all holders; waiters have higher fences
    owner     VARBINARY(8000),                        -- host, pid and label, for people
    admitted  BIGINT,
    expires   BIGINT,                                 -- no holder expires before this
    -- The holders that share the name. Each of them has a row in fencelock_tickets.
    team      VARBINARY(64)  NOT NULL DEFAULT '',     -- their common group
    used      BIGINT         NOT NULL DEFAULT 0,      -- the sum of their weights
    sharers   INT            NOT NULL DEFAULT 0       -- their number
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- The tickets that share a name, and behind them the tickets that wait, in order of their fences.
CREATE TABLE IF NOT EXISTS fencelock_tickets (
    name      VARBINARY(512)  NOT NULL,
    fence     BIGINT          NOT NULL,
    id        VARBINARY(64)   NOT NULL,
    owner     VARBINARY(8000) NOT NULL,
    joined    BIGINT          NOT NULL,
    expires   BIGINT          NOT NULL,
    channel   VARBINARY(64)   NOT NULL,               -- where its client listens
    admitted  BIGINT,                                 -- NULL while it waits
    team      VARBINARY(64)   NOT NULL DEFAULT '',    -- the group it may share with; '' if it holds alone
    weight    BIGINT          NOT NULL DEFAULT 1,
    permits   BIGINT          NOT NULL DEFAULT 1,
    PRIMARY KEY (name, fence),
    UNIQUE KEY by_id (name, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- The notes. A note outlives the holder that wrote it, and the name's own row.
CREATE TABLE IF NOT EXISTS fencelock_notes (
    name      VARBINARY(512) NOT NULL PRIMARY KEY,
    note      MEDIUMBLOB     NOT NULL,
    expires   BIGINT         NOT NULL,
    KEY by_expiry (expires)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- One row of facts about all names.
CREATE TABLE IF NOT EXISTS fencelock_about (
    one       TINYINT        NOT NULL PRIMARY KEY,
    floor     BIGINT         NOT NULL,                -- no deleted name ever had a fence above this
    swept     VARBINARY(512) NOT NULL                 -- the next sweep begins after this name
) ENGINE = InnoDB
//
INSERT INTO fencelock_about (one, floor, swept)
SELECT 1, 0, '' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM fencelock_about)
//
