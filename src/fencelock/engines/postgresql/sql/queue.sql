-- What the other functions share.
-- A standing is a text, "PLACE FENCE ABANDONED RECHECK_US". PLACE is 0 gone, 1 waiting, 2 admitted, 3 refused.
-- A notification is "ID STANDING".
-- Arguments that come again and again:
--   it       the name's row. It is locked. Functions change their copy and return it, and v2_store writes it
--   now      the server's clock, in µs
--   asking   the id of the ticket that this request is about: it reads its standing in the answer, so it gets no
--            notification. '' if there is none. NULL: notify no ticket

-- The server's clock, in µs. Functions read it after they have locked the name's row: so a call that had to wait
-- for the row lock still gives a whole lease. (Why date_part: extract is exact, and twice as slow.)
CREATE OR REPLACE FUNCTION fencelock.v2_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (date_part('epoch', clock_timestamp()) * 1e6)::bigint
$$;

-- Write the name's row.
CREATE OR REPLACE FUNCTION fencelock.v2_store(it fencelock.names) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE fencelock.names n
       SET newest = it.newest, abandoned = it.abandoned, queued = it.queued, id = it.id, fence = it.fence,
           owner = it.owner, admitted = it.admitted, expires = it.expires,
           team = it.team, used = it.used, sharers = it.sharers
     WHERE n.name = it.name;
END $$;

-- Count one more holder that shares the name. Returns the changed row.
--   its_fence, its_expires, its_team, its_weight   of that holder
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

-- Admit the first waiter if it fits beside the holders, then the next, until one does not fit. Notify their
-- clients. Returns the changed row. Expired waiters in between never held the lock, so the name does not count
-- as abandoned.
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
            -- queued stays true: to check now whether others wait costs more than to find none next time.
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

-- Take out the holders that have expired, and admit the waiters that fit. Returns the changed row.
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

-- The standing of a waiting ticket that lives. The queue must be settled (v2_settle). Deletes expired waiters
-- ahead of it.
--   its_fence   of the ticket
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

-- Extend a ticket that shares the name or waits. The queue must be settled (v2_settle). Returns its standing, or
-- NULL if it is not there or has expired.
--   its_id                   the ticket
--   ttl_us                   how long it lives from now on
--   its_channel, its_owner   its new ones; NULL keeps the old ones
CREATE OR REPLACE FUNCTION fencelock.v2_look(
    it fencelock.names, its_id text, ttl_us bigint, its_channel text, its_owner text, now bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    its_fence bigint;
BEGIN
    -- Never earlier than promised before: this may be a late request with a shorter ttl.
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
