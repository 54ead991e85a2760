-- The tables of Fencelock. Times are µs since 1970 by the server's clock, fences come from the same clock.

-- In version 1 all held alone, and a name's row said less. Its leases and its queues stay as they are.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_upgrade()
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    IF EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
                AND TABLE_NAME = 'fencelock_names' AND COLUMN_NAME = 'crowded') THEN
        ALTER TABLE fencelock_waiters
            MODIFY owner         VARBINARY(8000) NOT NULL,
            ADD COLUMN admitted  BIGINT,
            ADD COLUMN team      VARBINARY(64)   NOT NULL DEFAULT '',
            ADD COLUMN weight    BIGINT          NOT NULL DEFAULT 1,
            ADD COLUMN permits   BIGINT          NOT NULL DEFAULT 1,
            RENAME TO fencelock_tickets;
        ALTER TABLE fencelock_names
            RENAME COLUMN crowded TO queued,
            MODIFY owner         VARBINARY(8000),
            ADD COLUMN team      VARBINARY(64)   NOT NULL DEFAULT '',
            ADD COLUMN used      BIGINT          NOT NULL DEFAULT 0,
            ADD COLUMN sharers   INT             NOT NULL DEFAULT 0;
    END IF;
END
//
CALL fencelock_v2_upgrade()
//
-- Names: what is remembered of each, and in the same row the one that holds it alone, so that taking and
-- giving back a lock that nobody else wants changes one row. Names are bytes: no collation makes two equal.
CREATE TABLE IF NOT EXISTS fencelock_names (
    name      VARBINARY(512) NOT NULL PRIMARY KEY,
    newest    BIGINT         NOT NULL,                -- the last fence handed out
    abandoned BOOLEAN        NOT NULL DEFAULT FALSE,  -- the last that held alone and ended did not release
    queued    BOOLEAN        NOT NULL DEFAULT FALSE,  -- there may be tickets
    nudged    VARBINARY(64),                          -- the id of one that waits and should look again
    -- of the holder; without an id nobody holds it, and then nobody waits either
    id        VARBINARY(64),                          -- its secret; '': those who hold it share it
    fence     BIGINT,                                 -- of several the newest: who waits has a higher one
    owner     VARBINARY(8000),                        -- who, for people
    admitted  BIGINT,
    expires   BIGINT,                                 -- of several: none expires before
    -- of those who share it, who are tickets
    team      VARBINARY(64)  NOT NULL DEFAULT '',     -- the group of them all
    used      BIGINT         NOT NULL DEFAULT 0,      -- how many permits they take
    sharers   INT            NOT NULL DEFAULT 0       -- how many they are
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- Those who share a name, and behind them those who wait, by name and in order.
CREATE TABLE IF NOT EXISTS fencelock_tickets (
    name      VARBINARY(512)  NOT NULL,
    fence     BIGINT          NOT NULL,
    id        VARBINARY(64)   NOT NULL,
    owner     VARBINARY(8000) NOT NULL,
    joined    BIGINT          NOT NULL,
    expires   BIGINT          NOT NULL,
    channel   VARBINARY(64)   NOT NULL,               -- where its client listens
    admitted  BIGINT,                                 -- NULL: it waits
    team      VARBINARY(64)   NOT NULL DEFAULT '',    -- the group it may share with; '': it won't
    weight    BIGINT          NOT NULL DEFAULT 1,
    permits   BIGINT          NOT NULL DEFAULT 1,
    PRIMARY KEY (name, fence),
    UNIQUE KEY by_id (name, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- What was noted down for a name. It outlives those who held it, and the name's own row.
CREATE TABLE IF NOT EXISTS fencelock_notes (
    name      VARBINARY(512) NOT NULL PRIMARY KEY,
    note      MEDIUMBLOB     NOT NULL,
    expires   BIGINT         NOT NULL,
    KEY by_expiry (expires)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- One row about all of it.
CREATE TABLE IF NOT EXISTS fencelock_about (
    one       TINYINT        NOT NULL PRIMARY KEY,
    floor     BIGINT         NOT NULL,                -- no forgotten name ever had a fence above this
    swept     VARBINARY(512) NOT NULL                 -- the sweep for forgotten names goes on behind this
) ENGINE = InnoDB
//
INSERT INTO fencelock_about (one, floor, swept)
SELECT 1, 0, '' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM fencelock_about)
//
