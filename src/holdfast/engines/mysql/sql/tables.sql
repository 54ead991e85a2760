-- The tables of Holdfast. Times are µs since 1970 by the server's clock, fences come from the same clock.

-- Names: what is remembered of each, and in the same row the one that holds it, so that taking and
-- giving back a lock that nobody else wants changes one row. Names are bytes: no collation makes two equal.
CREATE TABLE IF NOT EXISTS holdfast_names (
    name      VARBINARY(512) NOT NULL PRIMARY KEY,
    newest    BIGINT         NOT NULL,                -- the last fence handed out
    abandoned BOOLEAN        NOT NULL DEFAULT FALSE,  -- the last holder that ended did not release
    crowded   BOOLEAN        NOT NULL DEFAULT FALSE,  -- somebody may wait
    nudged    VARBINARY(64),                          -- the id of one that waits and should look again
    -- of the holder; without an id nobody holds it, and then nobody waits either
    id        VARBINARY(64),                          -- its secret
    fence     BIGINT,
    owner     VARBINARY(1200),                        -- who, for people
    admitted  BIGINT,
    expires   BIGINT
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- Those who wait, by name and in order.
CREATE TABLE IF NOT EXISTS holdfast_waiters (
    name      VARBINARY(512)  NOT NULL,
    fence     BIGINT          NOT NULL,
    id        VARBINARY(64)   NOT NULL,
    owner     VARBINARY(1200) NOT NULL,
    joined    BIGINT          NOT NULL,
    expires   BIGINT          NOT NULL,
    channel   VARBINARY(64)   NOT NULL,               -- where its client listens
    PRIMARY KEY (name, fence),
    UNIQUE KEY by_id (name, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- One row about all of it.
CREATE TABLE IF NOT EXISTS holdfast_about (
    one       TINYINT        NOT NULL PRIMARY KEY,
    floor     BIGINT         NOT NULL,                -- no forgotten name ever had a fence above this
    swept     VARBINARY(512) NOT NULL                 -- the sweep for forgotten names goes on behind this
) ENGINE = InnoDB
//
INSERT INTO holdfast_about (one, floor, swept)
SELECT 1, 0, '' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM holdfast_about)
//
