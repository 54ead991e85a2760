-- Note something down for a name, if this very ticket holds it, alone or with others. False: it does not.
CREATE OR REPLACE FUNCTION fencelock.v2_remember(
    its_name text, its_id text, its_note text, keep_us bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    it     fencelock.names;
    before fencelock.names;
    now    bigint;
BEGIN
    SELECT * INTO it FROM fencelock.names n WHERE n.name = its_name FOR UPDATE;
    IF it.id IS NULL THEN
        RETURN false;
    END IF;
    now := fencelock.v2_now();
    before := it;
    it := fencelock.v2_settle(it, now, '');
    IF it IS DISTINCT FROM before THEN
        PERFORM fencelock.v2_store(it);
    END IF;
    IF it.id IS DISTINCT FROM its_id AND NOT EXISTS (
        SELECT 1 FROM fencelock.tickets t
         WHERE t.name = its_name AND t.id = its_id AND t.admitted IS NOT NULL) THEN
        RETURN false;
    END IF;
    INSERT INTO fencelock.notes VALUES (its_name, its_note, now + keep_us)
        ON CONFLICT (name) DO UPDATE SET note = excluded.note, expires = excluded.expires;
    -- Each leaves at most one behind and forgets more than that, so they can't grow without end. It waits
    -- for nobody: others may want the notes that it has locked.
    DELETE FROM fencelock.notes m
     WHERE m.name IN (
           SELECT o.name FROM fencelock.notes o WHERE o.expires <= now
            ORDER BY o.expires LIMIT 256 FOR UPDATE SKIP LOCKED);
    RETURN true;
END $$;

-- What was noted down for a name: no row if nothing was, or if its time is up.
CREATE OR REPLACE FUNCTION fencelock.v2_recall(its_name text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT m.note FROM fencelock.notes m WHERE m.name = its_name AND m.expires > fencelock.v2_now()
$$;
