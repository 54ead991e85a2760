-- Take out this very ticket, and tell whom this admits. False: it was not there (any more).
-- departure: 0 released, 1 lost, 2 withdrawn (how the holder before it ended still counts)
CREATE OR REPLACE FUNCTION holdfast.v1_leave(
    its_name text, its_id text, departure int
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    it     holdfast.names;
    now    bigint := date_part('epoch', clock_timestamp()) * 1e6;
    gone   holdfast.waiters;
    behind holdfast.waiters;
BEGIN
    -- Nobody waits, as in most cases.
    UPDATE holdfast.names n
       SET abandoned = CASE departure WHEN 0 THEN false WHEN 1 THEN true ELSE n.abandoned END,
           id = NULL, fence = NULL, owner = NULL, admitted = NULL, expires = NULL
     WHERE n.name = its_name AND n.id = its_id AND NOT n.crowded AND n.expires > now;
    IF FOUND THEN
        RETURN true;
    END IF;

    SELECT * INTO it FROM holdfast.names n WHERE n.name = its_name FOR UPDATE;
    IF it.id IS NULL THEN
        RETURN false;
    END IF;
    now := holdfast.v1_now();

    -- One that leaves from further behind may be the first to notice that the holder has expired.
    IF it.expires <= now THEN
        IF it.id = its_id THEN
            PERFORM holdfast.v1_pass_on(its_name, true, now, '');
            RETURN false;
        END IF;
        it := holdfast.v1_pass_on(its_name, true, now, its_id);
    END IF;
    IF it.id = its_id THEN
        PERFORM holdfast.v1_pass_on(its_name,
            CASE departure WHEN 0 THEN false WHEN 1 THEN true ELSE it.abandoned END, now, '');
        RETURN true;
    END IF;

    DELETE FROM holdfast.waiters w WHERE w.name = its_name AND w.id = its_id RETURNING * INTO gone;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- The one behind now stands behind someone else: it should look again when that one expires.
    SELECT * INTO behind FROM holdfast.waiters w
     WHERE w.name = its_name AND w.fence > gone.fence ORDER BY w.fence LIMIT 1;
    IF FOUND AND behind.channel <> '' THEN
        PERFORM pg_notify(behind.channel, concat_ws(' ', behind.id,
            holdfast.v1_waiting(its_name, behind.fence, it.expires, now)));
    END IF;
    RETURN gone.expires > now;
END $$;
