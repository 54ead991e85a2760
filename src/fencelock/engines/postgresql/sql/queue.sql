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

-- For how many µs a ticket of this group holds, whatever is asked later: a rate. 0 for all other groups.
CREATE OR REPLACE FUNCTION fencelock.v2_lasts(its_team text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN its_team LIKE 'rate %' AND its_team ~ '^rate [0-9]{1,13}$'
                THEN substr(its_team, 6)::bigint ELSE 0 END
$$;

-- When enough holders have expired for one more ticket of a rate; at least one of them has to. The holders of
-- a rate expire in the order of their fences, so this reads no more of them than the ticket wants permits.
CREATE OR REPLACE FUNCTION fencelock.v2_room(
    it fencelock.names, its_team text, its_weight bigint, its_permits bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    one fencelock.tickets;
BEGIN
    IF it.id = '' AND it.team = its_team THEN
        FOR one IN SELECT * FROM fencelock.tickets t WHERE t.name = it.name AND t.fence <= it.fence
                    ORDER BY t.fence LIMIT greatest(it.used + its_weight - its_permits, 1) LOOP
            it.used := it.used - one.weight;
            it.expires := one.expires;
            EXIT WHEN it.used + its_weight <= its_permits;
        END LOOP;
    END IF;
    RETURN it.expires;
END $$;

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
    first   fencelock.tickets;
    lasts   bigint;
    changed boolean := false;
BEGIN
    WHILE it.queued AND coalesce(it.id, '') = '' LOOP
        SELECT * INTO first FROM fencelock.tickets t
         WHERE t.name = it.name AND t.fence > coalesce(it.fence, 0) ORDER BY t.fence LIMIT 1;
        IF NOT FOUND THEN
            it.queued := it.id IS NOT NULL;
            EXIT;
        END IF;
        IF first.expires > now AND it.id IS NOT NULL
           AND (first.team = '' OR first.team <> it.team OR it.used + first.weight > first.permits) THEN
            IF changed AND first.channel <> '' AND first.id <> asking AND fencelock.v2_lasts(first.team) > 0 THEN
                -- No release will admit it: it must know when to look.
                PERFORM pg_notify(first.channel, concat_ws(' ', first.id, 1, first.fence, 0,
                    fencelock.v2_room(it, first.team, first.weight, first.permits) - now));
            END IF;
            EXIT;
        END IF;
        changed := true;
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
            lasts := fencelock.v2_lasts(first.team);
            IF lasts > 0 THEN
                first.expires := now + lasts;
            END IF;
            UPDATE fencelock.tickets t SET admitted = now, expires = first.expires
             WHERE t.name = it.name AND t.fence = first.fence;
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
DECLARE
    first_fence bigint;
BEGIN
    IF it.expires <= now AND it.id <> '' THEN
        it.id := NULL;
        it.abandoned := true;
    ELSIF it.expires <= now AND fencelock.v2_lasts(it.team) > 0 THEN
        -- A rate: the first holders expire first, so only the expired ones are read, and one more.
        SELECT t.fence, t.expires INTO first_fence, it.expires FROM fencelock.tickets t
         WHERE t.name = it.name AND t.fence <= it.fence AND t.expires > now ORDER BY t.fence LIMIT 1;
        WITH gone AS (
            DELETE FROM fencelock.tickets t
             WHERE t.name = it.name AND t.fence <= it.fence AND t.fence < coalesce(first_fence, it.fence + 1)
            RETURNING t.weight
        )
        SELECT it.sharers - count(*), it.used - coalesce(sum(weight), 0) INTO it.sharers, it.used FROM gone;
        IF first_fence IS NULL THEN
            it.id := NULL;
        END IF;
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
    its           fencelock.tickets;
BEGIN
    LOOP
        SELECT t.fence, t.expires INTO ahead_fence, ahead_expires FROM fencelock.tickets t
         WHERE t.name = it.name AND t.fence < its_fence AND t.fence > it.fence
         ORDER BY t.fence DESC LIMIT 1;
        IF NOT FOUND THEN
            IF it.id <> '' THEN
                ahead_expires := it.expires;
            ELSIF fencelock.v2_lasts(it.team) > 0 THEN
                SELECT * INTO its FROM fencelock.tickets t WHERE t.name = it.name AND t.fence = its_fence;
                ahead_expires := fencelock.v2_room(it, its.team, its.weight, its.permits);
            ELSE
                SELECT min(t.expires) INTO ahead_expires FROM fencelock.tickets t
                 WHERE t.name = it.name AND t.fence <= it.fence;
            END IF;
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
    -- Never earlier than promised before: this may be a late request with a shorter ttl. The permit of a rate
    -- ends when it ends.
    UPDATE fencelock.tickets t
       SET expires = CASE WHEN t.admitted IS NOT NULL AND fencelock.v2_lasts(t.team) > 0 THEN t.expires
                          ELSE greatest(t.expires, now + ttl_us) END, channel = coalesce(its_channel, t.channel),
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
