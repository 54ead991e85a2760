-- The tables of Fencelock. Times are µs since 1970 by the server's clock, fences come from the same clock.

-- In version 1 all held alone, and a name's row said less. Its leases and its queues stay as they are.
DO $$ BEGIN
    IF EXISTS (SELECT 1 FROM pg_attribute a
                WHERE a.attrelid = to_regclass('fencelock.names') AND a.attname = 'crowded') THEN
        ALTER TABLE fencelock.names RENAME COLUMN crowded TO queued;
        ALTER TABLE fencelock.names
            ADD COLUMN team    text   COLLATE "C" NOT NULL DEFAULT '',
            ADD COLUMN used    bigint NOT NULL DEFAULT 0,
            ADD COLUMN sharers int    NOT NULL DEFAULT 0;
        ALTER TABLE fencelock.waiters RENAME TO tickets;
        ALTER TABLE fencelock.tickets
            ADD COLUMN admitted bigint,
            ADD COLUMN team     text   COLLATE "C" NOT NULL DEFAULT '',
            ADD COLUMN weight   bigint NOT NULL DEFAULT 1,
            ADD COLUMN permits  bigint NOT NULL DEFAULT 1;
    END IF;
END $$;

-- Names: what is remembered of each, and in the same row the one that holds it alone, so that taking
-- and giving back a lock that nobody else wants updates one row, in place (HOT: no index sees it).
CREATE TABLE IF NOT EXISTS fencelock.names (
    name      text    COLLATE "C" PRIMARY KEY,
    newest    bigint  NOT NULL,                -- the last fence handed out
    abandoned boolean NOT NULL DEFAULT false,  -- the last that held alone and ended did not release
    queued    boolean NOT NULL DEFAULT false,  -- there may be tickets
    -- of the holder; without an id nobody holds it, and then nobody waits either
    id        text,                            -- its secret; '': those who hold it share it
    fence     bigint,                          -- of several the newest, so who waits has a higher one
    owner     text,                            -- who, for people
    admitted  bigint,
    expires   bigint,                          -- of several: none expires before
    -- of those who share it, who are tickets
    team      text    COLLATE "C" NOT NULL DEFAULT '',  -- the group of them all
    used      bigint  NOT NULL DEFAULT 0,      -- how many permits they take
    sharers   int     NOT NULL DEFAULT 0       -- how many they are
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Those who share a name, and behind them those who wait, by name and in order.
CREATE TABLE IF NOT EXISTS fencelock.tickets (
    name      text    COLLATE "C" NOT NULL,
    fence     bigint  NOT NULL,
    id        text    COLLATE "C" NOT NULL,
    owner     text    NOT NULL,
    joined    bigint  NOT NULL,
    expires   bigint  NOT NULL,
    channel   text    NOT NULL,                -- where its client listens; '': it can't
    admitted  bigint,                          -- NULL: it waits
    team      text    COLLATE "C" NOT NULL DEFAULT '',  -- the group it may share with; '': it won't
    weight    bigint  NOT NULL DEFAULT 1,
    permits   bigint  NOT NULL DEFAULT 1,
    PRIMARY KEY (name, fence),
    UNIQUE (name, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- What was noted down for a name. It outlives those who held it, and the name's own row.
CREATE TABLE IF NOT EXISTS fencelock.notes (
    name      text    COLLATE "C" PRIMARY KEY,
    note      text    NOT NULL,
    expires   bigint  NOT NULL
);
CREATE INDEX IF NOT EXISTS notes_by_expiry ON fencelock.notes (expires);

-- One row about all of it.
CREATE TABLE IF NOT EXISTS fencelock.about (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    floor     bigint  NOT NULL,                -- no forgotten name ever had a fence above this
    swept     text    COLLATE "C" NOT NULL     -- the sweep for forgotten names goes on behind this one
);
INSERT INTO fencelock.about (floor, swept) VALUES (0, '') ON CONFLICT DO NOTHING;
