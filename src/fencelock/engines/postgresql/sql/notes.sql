-- Store a note for a name, if the ticket holds the name, alone or with others. Returns whether it does.
--   its_name, its_id   the ticket
--   its_note           the text
--   keep_us            how long to keep it
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
    -- Each call adds at most one note and deletes up to 256, so the table can't grow without end. It skips
    -- locked rows: to wait for them while it holds locks itself could deadlock.
    DELETE FROM fencelock.notes m
     WHERE m.name IN (
           SELECT o.name FROM fencelock.notes o WHERE o.expires <= now
            ORDER BY o.expires LIMIT 256 FOR UPDATE SKIP LOCKED);
    RETURN true;
END $$;

-- The note of a name. No row if there is none, or if it has expired.
CREATE OR REPLACE FUNCTION fencelock.v2_recall(its_name text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT m.note FROM fencelock.notes m WHERE m.name = its_name AND m.expires > fencelock.v2_now()
$$;
