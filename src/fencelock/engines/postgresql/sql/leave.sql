-- Take a ticket out of its queue, and notify the clients of the tickets that this admits. Returns false if the
-- ticket was not there (any more).
--   its_name, its_id   the ticket
--   departure          0 released, 1 lost, 2 withdrawn (then the end of the holder before it still counts)

-- The general case: the ticket shares the name, or waits, or has expired.
CREATE OR REPLACE FUNCTION fencelock.v2_take_out(
    its_name text, its_id text, departure int
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    it        fencelock.names;
    before    fencelock.names;
    now       bigint;
    gone      fencelock.tickets;
    was_there boolean := false;
BEGIN
    SELECT * INTO it FROM fencelock.names n WHERE n.name = its_name FOR UPDATE;
    IF it.id IS NULL THEN
        RETURN false;
    END IF;
    now := fencelock.v2_now();
    before := it;
    -- A waiter that leaves may be the first to notice that a holder has expired.
    IF it.expires <= now THEN
        it := fencelock.v2_settle(it, now, its_id);
    END IF;
    IF it.id = its_id THEN
        was_there := true;
        it.id := NULL;
        it.abandoned := CASE departure WHEN 0 THEN false WHEN 1 THEN true ELSE it.abandoned END;
        it := fencelock.v2_admit(it, now, '');
    ELSIF it.queued THEN
        DELETE FROM fencelock.tickets t WHERE t.name = its_name AND t.id = its_id RETURNING * INTO gone;
        was_there := coalesce(gone.expires > now, false);
    END IF;
    IF gone.fence <= it.fence THEN
        it.sharers := it.sharers - 1;
        it.used := it.used - gone.weight;
        IF it.sharers = 0 THEN
            it.id := NULL;
        END IF;
        it := fencelock.v2_admit(it, now, '');
    ELSIF gone.fence IS NOT NULL THEN
        it := fencelock.v2_admit(it, now, '');
        PERFORM fencelock.v2_nudge(it, gone.fence, now);
    END IF;
    IF it IS DISTINCT FROM before THEN
        PERFORM fencelock.v2_store(it);
    END IF;
    RETURN was_there;
END $$;

-- Tell the waiter behind a removed ticket how long the ticket that is ahead of it now may live. It should look
-- again when that one expires.
--   its_fence   the fence of the removed ticket
CREATE OR REPLACE FUNCTION fencelock.v2_nudge(
    it fencelock.names, its_fence bigint, now bigint
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    behind fencelock.tickets;
BEGIN
    SELECT * INTO behind FROM fencelock.tickets t
     WHERE t.name = it.name AND t.fence > greatest(its_fence, it.fence) ORDER BY t.fence LIMIT 1;
    IF FOUND AND behind.channel <> '' THEN
        PERFORM pg_notify(behind.channel,
            concat_ws(' ', behind.id, fencelock.v2_waiting(it, behind.fence, now)));
    END IF;
END $$;

-- The fast path for an exclusive holder: one statement if no ticket waits, as in most cases, and three if the
-- next ticket holds alone, too, as in most other cases. Arguments: as in v2_take_out.
CREATE OR REPLACE FUNCTION fencelock.v2_leave(
    its_name text, its_id text, departure int
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    now          bigint := date_part('epoch', clock_timestamp()) * 1e6;
    others       boolean;
    flag         boolean;
    its_fence    bigint;
    next_id      text;
    next_fence   bigint;
    next_owner   text;
    next_expires bigint;
    next_channel text;
    it           fencelock.names;
BEGIN
    UPDATE fencelock.names n
       SET abandoned = CASE departure WHEN 0 THEN false WHEN 1 THEN true ELSE n.abandoned END,
           id = NULL, owner = NULL, admitted = NULL, expires = NULL,
           fence = CASE WHEN n.queued THEN n.fence END  -- waiters have higher fences
     WHERE n.name = its_name AND n.id = its_id AND n.expires > now
    RETURNING n.queued, n.abandoned, n.fence INTO others, flag, its_fence;
    IF NOT FOUND THEN
        RETURN fencelock.v2_take_out(its_name, its_id, departure);
    ELSIF NOT others THEN
        RETURN true;
    END IF;

    now := fencelock.v2_now();
    DELETE FROM fencelock.tickets t
     WHERE t.name = its_name AND t.expires > now AND t.team = '' AND t.fence = (
           SELECT f.fence FROM fencelock.tickets f
            WHERE f.name = its_name AND f.fence > its_fence ORDER BY f.fence LIMIT 1)
    RETURNING t.id, t.fence, t.owner, t.expires, t.channel
         INTO next_id, next_fence, next_owner, next_expires, next_channel;
    IF NOT FOUND THEN
        -- No ticket waits, or the next one has expired or wants to share.
        SELECT * INTO it FROM fencelock.names n WHERE n.name = its_name;
        PERFORM fencelock.v2_store(fencelock.v2_admit(it, now, ''));
        RETURN true;
    END IF;
    UPDATE fencelock.names n
       SET id = next_id, fence = next_fence, owner = next_owner, admitted = now, expires = next_expires
     WHERE n.name = its_name;
    IF next_channel <> '' THEN
        PERFORM pg_notify(next_channel, concat_ws(' ', next_id, 2, next_fence, flag::int, 0));
    END IF;
    RETURN true;
END $$;
