-- The tables of Holdfast. Times are µs since 1970 by the server's clock, fences come from the same clock.

-- Names: what is remembered of each, and in the same row the one that holds it, so that taking and
-- giving back a lock that nobody else wants updates one row, in place (HOT: no index sees it).
CREATE TABLE IF NOT EXISTS holdfast.names (
    name      text    COLLATE "C" PRIMARY KEY,
    newest    bigint  NOT NULL,                -- the last fence handed out
    abandoned boolean NOT NULL DEFAULT false,  -- the last holder that ended did not release
    crowded   boolean NOT NULL DEFAULT false,  -- somebody may wait
    -- of the holder; without an id nobody holds it, and then nobody waits either
    id        text,                            -- its secret
    fence     bigint,
    owner     text,                            -- who, for people
    admitted  bigint,
    expires   bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Those who wait, by name and in order.
CREATE TABLE IF NOT EXISTS holdfast.waiters (
    name      text    COLLATE "C" NOT NULL,
    fence     bigint  NOT NULL,
    id        text    COLLATE "C" NOT NULL,
    owner     text    NOT NULL,
    joined    bigint  NOT NULL,
    expires   bigint  NOT NULL,
    channel   text    NOT NULL,                -- where its client listens; '': it can't
    PRIMARY KEY (name, fence),
    UNIQUE (name, id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- One row about all of it.
CREATE TABLE IF NOT EXISTS holdfast.about (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    floor     bigint  NOT NULL,                -- no forgotten name ever had a fence above this
    swept     text    COLLATE "C" NOT NULL     -- the sweep for forgotten names goes on behind this one
);
INSERT INTO holdfast.about (floor, swept) VALUES (0, '') ON CONFLICT DO NOTHING;
