-- Join the queue, or look again and renew if already in it. Returns a standing.
-- if_free: join only if admitted at once.
CREATE OR REPLACE FUNCTION holdfast.v1_enter(
    its_name text, its_id text, ttl_us bigint, its_channel text, its_owner text, if_free boolean
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    it        holdfast.names;
    began     timestamptz := clock_timestamp();
    ended     timestamptz;
    now       bigint := date_part('epoch', began) * 1e6;
    its_fence bigint;
    flag      boolean;
    standing  text;
BEGIN
    -- Nobody holds it, as in most cases. The clock keeps fences growing when the last one was lost.
    UPDATE holdfast.names n
       SET newest = greatest(n.newest + 1, now), fence = greatest(n.newest + 1, now), crowded = false,
           id = its_id, owner = its_owner, admitted = now, expires = now + ttl_us
     WHERE n.name = its_name AND n.id IS NULL
    RETURNING n.fence, n.abandoned, clock_timestamp() INTO its_fence, flag, ended;
    IF FOUND THEN
        -- It had to wait for somebody's row lock: the lease begins now.
        IF ended - began > interval '1 ms' THEN
            now := holdfast.v1_now();
            UPDATE holdfast.names n SET admitted = now, expires = now + ttl_us WHERE n.name = its_name;
        END IF;
        IF its_fence % 64 = 0 THEN
            PERFORM holdfast.v1_sweep(now);
        END IF;
        RETURN '2 ' || its_fence || CASE WHEN flag THEN ' 1 0' ELSE ' 0 0' END;
    END IF;

    -- What follows reads several rows, and must see them as they are once the first is locked.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'Holdfast needs transactions that are read committed' USING ERRCODE = '25001';
    END IF;
    LOOP
        SELECT * INTO it FROM holdfast.names n WHERE n.name = its_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO holdfast.names (name, newest)
        SELECT its_name, floor FROM holdfast.about
            ON CONFLICT DO NOTHING;
    END LOOP;
    now := holdfast.v1_now();

    IF it.id = its_id AND it.expires > now THEN
        UPDATE holdfast.names n
           SET expires = greatest(n.expires, now + ttl_us), owner = its_owner
         WHERE n.name = its_name;
        RETURN concat_ws(' ', 2, it.fence, it.abandoned::int, 0);
    END IF;
    IF it.crowded THEN
        standing := holdfast.v1_look(it, its_id, ttl_us, its_channel, its_owner, now);
        IF standing IS NOT NULL THEN
            RETURN standing;
        END IF;
    END IF;
    IF it.expires <= now THEN
        it := holdfast.v1_pass_on(its_name, true, now, its_id);
    END IF;
    IF it.id IS NOT NULL AND if_free THEN
        RETURN '3 0 0 0';
    END IF;

    its_fence := greatest(it.newest + 1, now);
    IF it.id IS NULL THEN
        UPDATE holdfast.names n
           SET newest = its_fence, fence = its_fence, crowded = false,
               id = its_id, owner = its_owner, admitted = now, expires = now + ttl_us
         WHERE n.name = its_name;
        IF its_fence % 64 = 0 THEN
            PERFORM holdfast.v1_sweep(now);
        END IF;
        RETURN concat_ws(' ', 2, its_fence, it.abandoned::int, 0);
    END IF;
    UPDATE holdfast.names n SET newest = its_fence, crowded = true WHERE n.name = its_name;
    INSERT INTO holdfast.waiters (name, fence, id, owner, joined, expires, channel)
    VALUES (its_name, its_fence, its_id, its_owner, now, now + ttl_us, its_channel);
    RETURN holdfast.v1_waiting(its_name, its_fence, it.expires, now);
END $$;
