-- For postgresql+advisory:// only: PostgreSQL's own session locks, with a fence and a name for each.
-- Arguments that come again and again:
--   its_name, its_id   the ticket
--   its_key            the 64-bit hash of the name, which the server locks
--   its_owner          host, pid and label, for people
--   lowest             the lowest fence that the ticket may get
--   departure          0 released, 1 lost, 2 withdrawn (then the end of the holder before it still counts)

-- What outlasts a lock: its fence, and whether its last holder released. The key is unique here: that is how two
-- names with the same hash are found.
CREATE TABLE IF NOT EXISTS fencelock.counters (
    name      text    COLLATE "C" PRIMARY KEY,
    key       bigint  NOT NULL UNIQUE,
    newest    bigint  NOT NULL,                -- the last fence handed out
    holder    text,                            -- the id of the last holder, unless it released
    abandoned boolean NOT NULL DEFAULT false   -- what the last holder learned about the holder before it
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- The ticket behind each session. Not logged: sessions don't outlive a crash either.
CREATE UNLOGGED TABLE IF NOT EXISTS fencelock.sessions (
    id        text    COLLATE "C" PRIMARY KEY,
    name      text    COLLATE "C" NOT NULL,
    key       bigint  NOT NULL,
    pid       int     NOT NULL,
    started   timestamptz NOT NULL,            -- of the session: the system uses pids again
    owner     text    NOT NULL,
    joined    bigint  NOT NULL,
    fence     bigint,                          -- NULL while it waits
    admitted  bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- The sessions that live, and whether they have their lock.
CREATE OR REPLACE VIEW fencelock.living AS
SELECT s.*, l.granted
  FROM fencelock.sessions s
  JOIN pg_stat_activity a ON a.pid = s.pid AND a.backend_start = s.started
  JOIN pg_locks l ON l.pid = s.pid AND l.locktype = 'advisory' AND l.objsubid = 1
                 AND l.database = a.datid
                 AND (l.classid::bigint << 32) | l.objid::bigint = s.key;

-- Give a fence to the ticket of this session, which has the lock. Returns a standing.
CREATE OR REPLACE FUNCTION fencelock.v2_session_admit(
    its_name text, its_id text, its_key bigint, its_owner text, lowest bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    now       bigint := fencelock.v2_now();
    its_fence bigint;
    flag      boolean;
BEGIN
    UPDATE fencelock.counters c
       SET newest = greatest(c.newest + 1, now, lowest), abandoned = c.holder IS NOT NULL,
           holder = its_id
     WHERE c.name = its_name
    RETURNING c.newest, c.abandoned INTO its_fence, flag;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the counter of this name is not there any more' USING ERRCODE = '40001';
    END IF;
    INSERT INTO fencelock.sessions AS s
    SELECT its_id, its_name, its_key, pg_backend_pid(), a.backend_start, its_owner, now, its_fence, now
      FROM pg_stat_get_activity(pg_backend_pid()) a
        ON CONFLICT (id) DO UPDATE SET fence = excluded.fence, admitted = excluded.admitted,
           pid = excluded.pid, started = excluded.started, owner = excluded.owner;
    RETURN concat_ws(' ', 2, its_fence, flag::int, 0);
END $$;

-- Take the lock in this session if it is free. Returns a standing. If that is "waiting", the client calls
-- pg_advisory_lock(its_key) in this session next, and then v2_session_admit.
--   if_free   don't wait
CREATE OR REPLACE FUNCTION fencelock.v2_session_enter(
    its_name text, its_id text, its_key bigint, its_owner text, lowest bigint, if_free boolean
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    now   bigint := fencelock.v2_now();
    other text;
BEGIN
    FOR attempt IN 1 .. 3 LOOP  -- another session may delete it in between
        SELECT c.name INTO other FROM fencelock.counters c WHERE c.key = its_key;
        EXIT WHEN FOUND;
        INSERT INTO fencelock.counters (name, key, newest) VALUES (its_name, its_key, 0)
            ON CONFLICT DO NOTHING;
    END LOOP;
    IF other IS NULL THEN
        RAISE EXCEPTION 'the name % stands in fencelock.counters with another key', its_name;
    END IF;
    IF other <> its_name THEN
        RAISE EXCEPTION 'the names % and % have the same 64-bit hash', other, its_name
              USING ERRCODE = 'FL001';
    END IF;
    IF random() * 64 < 1 THEN
        PERFORM fencelock.v2_session_sweep(now);
    END IF;
    IF pg_try_advisory_lock(its_key) THEN
        RETURN fencelock.v2_session_admit(its_name, its_id, its_key, its_owner, lowest);
    END IF;
    IF if_free THEN
        RETURN '3 0 0 0';
    END IF;
    INSERT INTO fencelock.sessions AS s
    SELECT its_id, its_name, its_key, pg_backend_pid(), a.backend_start, its_owner, now
      FROM pg_stat_get_activity(pg_backend_pid()) a
        ON CONFLICT (id) DO UPDATE SET pid = excluded.pid, started = excluded.started;
    RETURN '1 0 0 3600000000';
END $$;

-- Store whether the holder released.
CREATE OR REPLACE FUNCTION fencelock.v2_session_depart(
    its_name text, its_id text, departure int
) RETURNS void LANGUAGE sql AS $$
    UPDATE fencelock.counters c
       SET holder = CASE WHEN departure = 1 OR departure = 2 AND c.abandoned THEN c.holder END
     WHERE c.name = its_name AND c.holder = its_id
$$;

-- Release the lock of this session. Returns false if the session did not have it.
CREATE OR REPLACE FUNCTION fencelock.v2_session_leave(
    its_name text, its_id text, its_key bigint, departure int
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM fencelock.sessions s WHERE s.id = its_id;
    PERFORM fencelock.v2_session_depart(its_name, its_id, departure);
    RETURN pg_advisory_unlock(its_key);
END $$;

-- End the session of a ticket, holding or waiting, from another session. Returns false if it was not there (any
-- more). The server frees the locks of an ended session a moment later. This function waits for that, for about
-- half a second at most, so that the caller finds the name free.
CREATE OR REPLACE FUNCTION fencelock.v2_session_end(
    its_id text, departure int
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    gone fencelock.sessions;
BEGIN
    DELETE FROM fencelock.sessions s WHERE s.id = its_id RETURNING * INTO gone;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM fencelock.v2_session_depart(gone.name, its_id, departure);
    PERFORM pg_terminate_backend(a.pid) FROM pg_stat_activity a
      WHERE a.pid = gone.pid AND a.backend_start = gone.started AND a.pid <> pg_backend_pid();
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    FOR look IN 1 .. 500 LOOP
        EXIT WHEN NOT EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = gone.pid AND l.locktype = 'advisory');
        PERFORM pg_sleep(0.001);
    END LOOP;
    RETURN true;
END $$;

-- The heartbeat of all sessions of a client. Returns the standings of these tickets, in order.
CREATE OR REPLACE FUNCTION fencelock.v2_session_renew(
    its_ids text[]
) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN v.id IS NULL THEN '0 0 0 0'
                WHEN v.fence IS NULL THEN '1 0 0 3600000000'
                WHEN v.granted THEN concat_ws(' ', 2, v.fence, c.abandoned::int, 0)
                ELSE '0 0 0 0' END
      FROM unnest(its_ids) WITH ORDINALITY AS asked (id, number)
      LEFT JOIN fencelock.living v ON v.id = asked.id
      LEFT JOIN fencelock.counters c ON c.name = v.name
     ORDER BY asked.number
$$;

-- Store the new owner of a ticket. Returns its standing.
CREATE OR REPLACE FUNCTION fencelock.v2_session_rename(
    its_id text, its_owner text
) RETURNS text LANGUAGE sql AS $$
    UPDATE fencelock.sessions s SET owner = its_owner WHERE s.id = its_id;
    SELECT fencelock.v2_session_renew(ARRAY[its_id]);
$$;

-- Like v2_inspect. Nothing expires here, so EXPIRES_US is -1.
--   most   how many waiters to list
CREATE OR REPLACE FUNCTION fencelock.v2_session_inspect(
    its_name text, most int
) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    now   bigint := fencelock.v2_now();
    it    fencelock.counters;
    held  fencelock.living;
BEGIN
    FOR look IN 1 .. 2 LOOP
        SELECT * INTO held FROM fencelock.living v
         WHERE v.name = its_name AND v.granted AND v.fence IS NOT NULL LIMIT 1;
        -- Read the counter after the holder: a holder writes the counter before it shows up as a session.
        SELECT * INTO it FROM fencelock.counters c WHERE c.name = its_name;
        EXIT WHEN held.id IS NOT NULL OR it.holder IS NULL;  -- else a new holder may have come in between
    END LOOP;
    RETURN NEXT concat_ws(' ', coalesce(it.newest, 0),
        coalesce(CASE WHEN held.id IS NULL THEN it.holder IS NOT NULL ELSE it.abandoned END, false)::int,
        (held.id IS NOT NULL)::int,
        (SELECT count(*) FROM fencelock.living v WHERE v.name = its_name AND v.fence IS NULL));
    IF held.id IS NOT NULL THEN
        RETURN NEXT concat_ws(' ', held.fence, now - held.admitted, -1, 1, 1)
            || E'\t\t' || held.owner;
    END IF;
    RETURN QUERY
    SELECT concat_ws(' ', 0, now - v.joined, -1, 1, 1) || E'\t\t' || v.owner FROM fencelock.living v
     WHERE v.name = its_name AND v.fence IS NULL ORDER BY v.joined LIMIT most;
END $$;

-- The names that are held or waited for, one row each.
CREATE OR REPLACE FUNCTION fencelock.v2_session_names() RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT DISTINCT v.name FROM fencelock.living v
$$;

-- End the session of the holder. Returns false if there was none.
CREATE OR REPLACE FUNCTION fencelock.v2_session_evict(its_name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held fencelock.living;
BEGIN
    SELECT * INTO held FROM fencelock.living v
     WHERE v.name = its_name AND v.granted AND v.fence IS NOT NULL LIMIT 1;
    RETURN held.id IS NOT NULL AND fencelock.v2_session_end(held.id, 1);
END $$;

-- Delete the rows of dead sessions, and of names that have not been used for long.
CREATE OR REPLACE FUNCTION fencelock.v2_session_sweep(now bigint) RETURNS void LANGUAGE sql AS $$
    DELETE FROM fencelock.sessions s
     WHERE NOT EXISTS (SELECT 1 FROM pg_stat_activity a
                        WHERE a.pid = s.pid AND a.backend_start = s.started);
    DELETE FROM fencelock.counters c
     WHERE c.name IN (
           SELECT d.name FROM fencelock.counters d
            WHERE d.newest < now - CASE WHEN d.holder IS NULL THEN 3600000000 ELSE 86400000000 END
              AND d.newest > 0
              AND NOT EXISTS (SELECT 1 FROM fencelock.sessions s WHERE s.name = d.name)
            LIMIT 256 FOR UPDATE SKIP LOCKED);
$$;
