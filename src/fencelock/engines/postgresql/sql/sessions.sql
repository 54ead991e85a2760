-- For postgresql+advisory:// only: PostgreSQL's own session locks, with a fence and a name for each.

-- What outlasts a lock: its fence, and whether its last holder released. The key is the 64-bit hash that
-- the server locks; that it is unique here is how two names with one hash are found out.
CREATE TABLE IF NOT EXISTS fencelock.counters (
    name      text    COLLATE "C" PRIMARY KEY,
    key       bigint  NOT NULL UNIQUE,
    newest    bigint  NOT NULL,                -- the last fence handed out
    holder    text,                            -- the id of the last holder, unless it released
    abandoned boolean NOT NULL DEFAULT false   -- what the last holder was told about the one before it
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- Who is behind a session, for people. Not logged: sessions don't outlive a crash either.
CREATE UNLOGGED TABLE IF NOT EXISTS fencelock.sessions (
    id        text    COLLATE "C" PRIMARY KEY,
    name      text    COLLATE "C" NOT NULL,
    key       bigint  NOT NULL,
    pid       int     NOT NULL,
    started   timestamptz NOT NULL,            -- of the session: pids come again
    owner     text    NOT NULL,
    joined    bigint  NOT NULL,
    fence     bigint,                          -- from its admission on
    admitted  bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- The sessions that live, and whether they have the lock they are there for.
CREATE OR REPLACE VIEW fencelock.living AS
SELECT s.*, l.granted
  FROM fencelock.sessions s
  JOIN pg_stat_activity a ON a.pid = s.pid AND a.backend_start = s.started
  JOIN pg_locks l ON l.pid = s.pid AND l.locktype = 'advisory' AND l.objsubid = 1
                 AND l.database = a.datid
                 AND (l.classid::bigint << 32) | l.objid::bigint = s.key;

-- The session that asks has the lock: give it a fence. Returns a standing.
-- lowest: the lowest fence that it may get
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

-- Take the lock in this session if it is free. Returns a standing; "waiting" means that the session is to
-- ask for pg_advisory_lock(its_key) now, and then for its admission.
CREATE OR REPLACE FUNCTION fencelock.v2_session_enter(
    its_name text, its_id text, its_key bigint, its_owner text, lowest bigint, if_free boolean
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    now   bigint := fencelock.v2_now();
    other text;
BEGIN
    FOR attempt IN 1 .. 3 LOOP  -- it may be forgotten in between
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

-- Whether the last holder counts as one that did not release. departure: 0 released, 1 lost, 2 withdrawn
CREATE OR REPLACE FUNCTION fencelock.v2_session_depart(
    its_name text, its_id text, departure int
) RETURNS void LANGUAGE sql AS $$
    UPDATE fencelock.counters c
       SET holder = CASE WHEN departure = 1 OR departure = 2 AND c.abandoned THEN c.holder END
     WHERE c.name = its_name AND c.holder = its_id
$$;

-- Give back the lock that this session has. False: it did not have it.
CREATE OR REPLACE FUNCTION fencelock.v2_session_leave(
    its_name text, its_id text, its_key bigint, departure int
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM fencelock.sessions s WHERE s.id = its_id;
    PERFORM fencelock.v2_session_depart(its_name, its_id, departure);
    RETURN pg_advisory_unlock(its_key);
END $$;

-- End another session, which holds or waits. False: it was not there (any more).
-- The server gives back what such a session has a moment later: that is waited for, but not for ever, so that
-- whoever ended it finds the name free.
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

-- Where these tickets stand, in order: the heartbeat of all sessions of a client.
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

-- A ticket's owner is another one from now on. Returns its standing.
CREATE OR REPLACE FUNCTION fencelock.v2_session_rename(
    its_id text, its_owner text
) RETURNS text LANGUAGE sql AS $$
    UPDATE fencelock.sessions s SET owner = its_owner WHERE s.id = its_id;
    SELECT fencelock.v2_session_renew(ARRAY[its_id]);
$$;

-- As v2_inspect; nothing expires here, so EXPIRES_US is -1.
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
        -- After its holder, which has left its mark here before it was to be seen there.
        SELECT * INTO it FROM fencelock.counters c WHERE c.name = its_name;
        EXIT WHEN held.id IS NOT NULL OR it.holder IS NULL;  -- else one may have come in between
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

CREATE OR REPLACE FUNCTION fencelock.v2_session_names() RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT DISTINCT v.name FROM fencelock.living v
$$;

-- End the session of the holder, whoever it is. False: there was none.
CREATE OR REPLACE FUNCTION fencelock.v2_session_evict(its_name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held fencelock.living;
BEGIN
    SELECT * INTO held FROM fencelock.living v
     WHERE v.name = its_name AND v.granted AND v.fence IS NOT NULL LIMIT 1;
    RETURN held.id IS NOT NULL AND fencelock.v2_session_end(held.id, 1);
END $$;

-- Forget sessions that are dead, and names that nobody has used for long.
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
