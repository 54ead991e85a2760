-- The tables of Fencelock. Times are µs since 1970 by the server's clock. Fences come from the same clock.

-- What is remembered of each name. The same row has its holder, if that holds alone: so to take and release
-- a lock without contention updates one row, in place (HOT: no index changes).
CREATE TABLE IF NOT EXISTS fencelock.names (
    name      text    COLLATE "C" PRIMARY KEY,
    newest    bigint  NOT NULL,                -- the last fence handed out
    abandoned boolean NOT NULL DEFAULT false,  -- the last exclusive holder ended without a release
    queued    boolean NOT NULL DEFAULT false,  -- there may be tickets
    -- The holder. If id is NULL, no ticket holds the name, and none waits.
    id        text,                            -- its secret id; '' if several tickets share the name
    fence     bigint,                          -- the newest of all holders; waiters have higher fences
    owner     text,                            -- host, pid and label, for people
    admitted  bigint,
    expires   bigint,                          -- no holder expires before this
    -- The holders that share the name. Each of them has a row in tickets.
    team      text    COLLATE "C" NOT NULL DEFAULT '',  -- their common group
    used      bigint  NOT NULL DEFAULT 0,      -- the sum of their weights
    sharers   int     NOT NULL DEFAULT 0       -- their number
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- The tickets that share a name, and behind them the tickets that wait, in order of their fences.
CREATE TABLE IF NOT EXISTS fencelock.tickets (
    name      text    COLLATE "C" NOT NULL,
    fence     bigint  NOT NULL,
    id        text    COLLATE "C" NOT NULL,
    owner     text    NOT NULL,
    joined    bigint  NOT NULL,
    expires   bigint  NOT NULL,
    channel   text    NOT NULL,                -- where its client listens; '' if it can't
    admitted  bigint,                          -- NULL while it waits
    team      text    COLLATE "C" NOT NULL DEFAULT '',  -- the group it may share with; '' if it holds alone
    weight    bigint  NOT NULL DEFAULT 1,
    permits   bigint  NOT NULL DEFAULT 1,
    PRIMARY KEY (name, fence),
    UNIQUE (name, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- The notes. A note outlives the holder that wrote it, and the name's own row.
CREATE TABLE IF NOT EXISTS fencelock.notes (
    name      text    COLLATE "C" PRIMARY KEY,
    note      text    NOT NULL,
    expires   bigint  NOT NULL
);
CREATE INDEX IF NOT EXISTS notes_by_expiry ON fencelock.notes (expires);

-- One row of facts about all names.
CREATE TABLE IF NOT EXISTS fencelock.about (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    floor     bigint  NOT NULL,                -- no deleted name ever had a fence above this
    swept     text    COLLATE "C" NOT NULL     -- the next sweep begins after this name
);
INSERT INTO fencelock.about (floor, swept) VALUES (0, '') ON CONFLICT DO NOTHING;
