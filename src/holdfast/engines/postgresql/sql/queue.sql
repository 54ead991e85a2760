-- What the other functions share. A standing is a text, "PLACE FENCE ABANDONED RECHECK_US", with
-- 0 gone, 1 waiting, 2 admitted, 3 refused. What is pushed to a client is "ID STANDING".

-- The server's clock, in µs. It is read after the name's row was locked, so that whoever had to wait for
-- that has not used up its lease meanwhile. (date_part: extract is exact, and twice as slow.)
CREATE OR REPLACE FUNCTION holdfast.v1_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (date_part('epoch', clock_timestamp()) * 1e6)::bigint
$$;

-- The holder is gone: make the first living ticket the holder, and tell it unless it is the one that
-- asks (NULL: tell nobody). The dead ones in between never held the lock, so they don't count as
-- abandoned. The name's row is locked.
CREATE OR REPLACE FUNCTION holdfast.v1_pass_on(
    its_name text, flag boolean, now bigint, asking text
) RETURNS holdfast.names LANGUAGE plpgsql AS $$
DECLARE
    first holdfast.waiters;
    it    holdfast.names;
BEGIN
    LOOP
        DELETE FROM holdfast.waiters w
         WHERE w.name = its_name AND w.fence = (
               SELECT fence FROM holdfast.waiters WHERE name = its_name ORDER BY fence LIMIT 1)
        RETURNING * INTO first;
        EXIT WHEN NOT FOUND OR first.expires > now;
    END LOOP;
    -- crowded stays: to look whether anybody else waits would cost more than to find nobody next time.
    UPDATE holdfast.names n
       SET abandoned = flag, crowded = first.id IS NOT NULL, id = first.id, fence = first.fence,
           owner = first.owner, expires = first.expires,
           admitted = CASE WHEN first.id IS NOT NULL THEN now END
     WHERE n.name = its_name
    RETURNING * INTO it;
    IF first.id <> asking AND first.channel <> '' THEN
        PERFORM pg_notify(first.channel, concat_ws(' ', first.id, 2, first.fence, flag::int, 0));
    END IF;
    RETURN it;
END $$;

-- The standing of a living ticket that waits behind a living holder.
CREATE OR REPLACE FUNCTION holdfast.v1_waiting(
    its_name text, its_fence bigint, holder_expires bigint, now bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ahead_fence   bigint;
    ahead_expires bigint;
BEGIN
    LOOP
        SELECT fence, expires INTO ahead_fence, ahead_expires FROM holdfast.waiters
         WHERE name = its_name AND fence < its_fence ORDER BY fence DESC LIMIT 1;
        IF NOT FOUND THEN
            ahead_expires := holder_expires;
        END IF;
        IF ahead_expires > now THEN
            RETURN concat_ws(' ', 1, its_fence, 0, ahead_expires - now);
        END IF;
        DELETE FROM holdfast.waiters WHERE name = its_name AND fence = ahead_fence;
    END LOOP;
END $$;

-- Extend a ticket that waits, if it is there and lives, and say where it stands; NULL if not.
-- The name's row is locked, and given as it is.
CREATE OR REPLACE FUNCTION holdfast.v1_look(
    it holdfast.names, its_id text, ttl_us bigint, its_channel text, its_owner text, now bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    its_fence bigint;
BEGIN
    -- Never sooner than promised before: this may be a late request with a shorter ttl.
    UPDATE holdfast.waiters w
       SET expires = greatest(w.expires, now + ttl_us), channel = coalesce(its_channel, w.channel),
           owner = coalesce(its_owner, w.owner)
     WHERE w.name = it.name AND w.id = its_id AND w.expires > now
    RETURNING w.fence INTO its_fence;
    IF NOT FOUND THEN
        DELETE FROM holdfast.waiters w WHERE w.name = it.name AND w.id = its_id;
        RETURN NULL;
    END IF;
    IF it.expires <= now THEN
        it := holdfast.v1_pass_on(it.name, true, now, its_id);
        IF it.id = its_id THEN
            RETURN concat_ws(' ', 2, it.fence, it.abandoned::int, 0);
        END IF;
    END IF;
    RETURN holdfast.v1_waiting(it.name, its_fence, it.expires, now);
END $$;
