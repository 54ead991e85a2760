-- What the other functions share. A standing is a text, "PLACE FENCE ABANDONED RECHECK_US", with
-- 0 gone, 1 waiting, 2 admitted, 3 refused. What is pushed to a client is "ID STANDING".
-- `it` is the name's row, which is locked: functions change their copy, and v2_store writes it.

-- The server's clock, in µs. It is read after the name's row was locked, so that whoever had to wait for
-- that has not used up its lease meanwhile. (date_part: extract is exact, and twice as slow.)
CREATE OR REPLACE FUNCTION fencelock.v2_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (date_part('epoch', clock_timestamp()) * 1e6)::bigint
$$;

CREATE OR REPLACE FUNCTION fencelock.v2_store(it fencelock.names) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fencelock.names n
       SET newest = it.newest, abandoned = it.abandoned, queued = it.queued, id = it.id, fence = it.fence,
           owner = it.owner, admitted = it.admitted, expires = it.expires,
           team = it.team, used = it.used, sharers = it.sharers
     WHERE n.name = it.name;
END $$;

-- One more shares the name, or the first one does: nobody else holds it then.
CREATE OR REPLACE FUNCTION fencelock.v2_beside(
    it fencelock.names, its_fence bigint, its_expires bigint, its_team text, its_weight bigint
) RETURNS fencelock.names LANGUAGE plpgsql AS $$
BEGIN
    IF it.id IS NULL THEN
        it.owner := NULL;
        it.admitted := NULL;
        it.expires := its_expires;
        it.used := 0;
        it.sharers := 0;
    END IF;
    it.queued := true;
    it.id := '';
    it.fence := greatest(it.fence, its_fence);
    it.expires := least(it.expires, its_expires);
    it.team := its_team;
    it.used := it.used + its_weight;
    it.sharers := it.sharers + 1;
    RETURN it;
END $$;

-- Admit the first who waits if it fits beside those who hold, then the next, until one does not fit; tell
-- each unless it is the one that asks (NULL: tell nobody). The dead ones in between never held the lock,
-- so they don't count as abandoned.
CREATE OR REPLACE FUNCTION fencelock.v2_admit(
    it fencelock.names, now bigint, asking text
) RETURNS fencelock.names LANGUAGE plpgsql AS $$
DECLARE
    first fencelock.tickets;
BEGIN
    WHILE it.queued AND coalesce(it.id, '') = '' LOOP
        SELECT * INTO first FROM fencelock.tickets t
         WHERE t.name = it.name AND t.fence > coalesce(it.fence, 0) ORDER BY t.fence LIMIT 1;
        IF NOT FOUND THEN
            it.queued := it.id IS NOT NULL;
            EXIT;
        END IF;
        EXIT WHEN first.expires > now AND it.id IS NOT NULL
              AND (first.team = '' OR first.team <> it.team OR it.used + first.weight > first.permits);
        IF first.expires <= now OR first.team = '' THEN
            DELETE FROM fencelock.tickets t WHERE t.name = it.name AND t.fence = first.fence;
            CONTINUE WHEN first.expires <= now;
            -- queued stays: to look whether others wait would cost more than to find nobody next time.
            it.id := first.id;
            it.fence := first.fence;
            it.owner := first.owner;
            it.admitted := now;
            it.expires := first.expires;
        ELSE
            UPDATE fencelock.tickets t SET admitted = now WHERE t.name = it.name AND t.fence = first.fence;
            it := fencelock.v2_beside(it, first.fence, first.expires, first.team, first.weight);
        END IF;
        IF first.id <> asking AND first.channel <> '' THEN
            PERFORM pg_notify(
                first.channel, concat_ws(' ', first.id, 2, first.fence, it.abandoned::int, 0));
        END IF;
    END LOOP;
    IF it.id IS NULL THEN
        it.fence := NULL;
        it.owner := NULL;
        it.admitted := NULL;
        it.expires := NULL;
    END IF;
    RETURN it;
END $$;

-- Take out those who hold and have expired, and admit whoever can be.
CREATE OR REPLACE FUNCTION fencelock.v2_settle(
    it fencelock.names, now bigint, asking text
) RETURNS fencelock.names LANGUAGE plpgsql AS $$
BEGIN
    IF it.expires <= now AND it.id <> '' THEN
        it.id := NULL;
        it.abandoned := true;
    ELSIF it.expires <= now THEN
        DELETE FROM fencelock.tickets t
         WHERE t.name = it.name AND t.fence <= it.fence AND t.expires <= now;
        SELECT count(*), coalesce(sum(t.weight), 0), min(t.expires) INTO it.sharers, it.used, it.expires
          FROM fencelock.tickets t WHERE t.name = it.name AND t.fence <= it.fence;
        IF it.sharers = 0 THEN
            it.id := NULL;
        END IF;
    END IF;
    RETURN fencelock.v2_admit(it, now, asking);
END $$;

-- The standing of a living ticket that waits, in a queue that is settled.
CREATE OR REPLACE FUNCTION fencelock.v2_waiting(
    it fencelock.names, its_fence bigint, now bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ahead_fence   bigint;
    ahead_expires bigint;
BEGIN
    LOOP
        SELECT t.fence, t.expires INTO ahead_fence, ahead_expires FROM fencelock.tickets t
         WHERE t.name = it.name AND t.fence < its_fence AND t.fence > it.fence
         ORDER BY t.fence DESC LIMIT 1;
        IF NOT FOUND THEN
            ahead_expires := CASE WHEN it.id <> '' THEN it.expires ELSE (
                SELECT min(t.expires) FROM fencelock.tickets t
                 WHERE t.name = it.name AND t.fence <= it.fence) END;
            ahead_fence := NULL;
        END IF;
        IF ahead_fence IS NULL OR ahead_expires > now THEN
            RETURN concat_ws(' ', 1, its_fence, 0, greatest(ahead_expires - now, 0));
        END IF;
        DELETE FROM fencelock.tickets t WHERE t.name = it.name AND t.fence = ahead_fence;
    END LOOP;
END $$;

-- Extend a ticket that shares or waits, if it is there and lives, and say where it stands in a queue that
-- is settled; NULL if not.
CREATE OR REPLACE FUNCTION fencelock.v2_look(
    it fencelock.names, its_id text, ttl_us bigint, its_channel text, its_owner text, now bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    its_fence bigint;
BEGIN
    -- Never sooner than promised before: this may be a late request with a shorter ttl.
    UPDATE fencelock.tickets t
       SET expires = greatest(t.expires, now + ttl_us), channel = coalesce(its_channel, t.channel),
           owner = coalesce(its_owner, t.owner)
     WHERE t.name = it.name AND t.id = its_id AND t.expires > now
    RETURNING t.fence INTO its_fence;
    IF NOT FOUND THEN
        DELETE FROM fencelock.tickets t WHERE t.name = it.name AND t.id = its_id;
        RETURN NULL;
    END IF;
    IF its_fence <= it.fence THEN
        RETURN concat_ws(' ', 2, its_fence, it.abandoned::int, 0);
    END IF;
    RETURN fencelock.v2_waiting(it, its_fence, now);
END $$;
