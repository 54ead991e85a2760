-- Delete some names that have not been used for long: an hour after a release, a day after a holder that did
-- not release. One in 64 grants calls this, and it looks through 256 names. Each grant adds at most one name,
-- so the tables can't grow without end. Skips locked rows: a later sweep finds them.
CREATE OR REPLACE FUNCTION fencelock.v2_sweep(now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    hour   CONSTANT bigint := 3600000000;
    day    CONSTANT bigint := 24 * hour;
    about  fencelock.about;
    last   text;
    seen   int;
    top    bigint;
BEGIN
    SELECT * INTO about FROM fencelock.about FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT max(s.name), count(*) INTO last, seen FROM (
        SELECT n.name FROM fencelock.names n WHERE n.name > about.swept ORDER BY n.name LIMIT 256) s;
    WITH idle AS (
        SELECT n.name FROM fencelock.names n
         WHERE n.name > about.swept AND n.name <= last
           AND CASE WHEN n.id IS NULL AND NOT n.abandoned
                    -- or the clock was set back since its last use
                    THEN n.newest < now - hour OR n.newest > now + hour
                    ELSE n.newest < now - day AND coalesce(n.expires, 0) < now - day
               END
           AND NOT EXISTS (
               SELECT 1 FROM fencelock.tickets t WHERE t.name = n.name AND t.expires > now)
           FOR UPDATE SKIP LOCKED
    ), dead AS (
        DELETE FROM fencelock.tickets t USING idle WHERE t.name = idle.name
    ), forgotten AS (
        DELETE FROM fencelock.names n USING idle WHERE n.name = idle.name RETURNING n.newest
    )
    SELECT max(newest) INTO top FROM forgotten;
    -- A name that comes back starts above the fences of all deleted names.
    UPDATE fencelock.about a
       SET floor = greatest(a.floor, top), swept = CASE WHEN seen = 256 THEN last ELSE '' END;
END $$;
