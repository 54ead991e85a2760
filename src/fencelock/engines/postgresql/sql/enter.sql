-- Join the queue of a name, or renew a ticket that is already in it. Returns a standing (see queue.sql).
--   its_name, its_id   the ticket
--   ttl_us             how long it lives unless renewed
--   its_channel        where its client listens; '' if it can't
--   its_owner          host, pid and label, for people
--   if_free            join only if admitted at once
--   lowest             the lowest fence that a new ticket may get
--   its_team           the group it may share with; '' if it holds alone
--   its_weight, its_permits   see core/admission.py

-- The general case.
CREATE OR REPLACE FUNCTION fencelock.v2_join(
    its_name text, its_id text, ttl_us bigint, its_channel text, its_owner text, if_free boolean,
    lowest bigint, its_team text, its_weight bigint, its_permits bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    it       fencelock.names;
    before   fencelock.names;
    now      bigint;
    free     boolean;
    standing text;
    lives_us bigint := coalesce(nullif(fencelock.v2_lasts(its_team), 0), ttl_us);  -- once admitted
BEGIN
    -- The statements below must see all rows as they are after the first row was locked.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'Fencelock needs transactions that are read committed' USING ERRCODE = '25001';
    END IF;
    LOOP
        SELECT * INTO it FROM fencelock.names n WHERE n.name = its_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO fencelock.names (name, newest)
        SELECT its_name, floor FROM fencelock.about
            ON CONFLICT DO NOTHING;
    END LOOP;
    now := fencelock.v2_now();
    before := it;
    IF it.expires <= now OR it.id = '' THEN
        it := fencelock.v2_settle(it, now, its_id);
    END IF;

    IF it.id = its_id THEN
        standing := concat_ws(' ', 2, it.fence, it.abandoned::int, 0);
        it.expires := greatest(it.expires, now + ttl_us);
        it.owner := its_owner;
        IF its_team <> '' THEN
            -- It held alone, and shares the name from now on.
            INSERT INTO fencelock.tickets
            VALUES (its_name, it.fence, its_id, its_owner, it.admitted, it.expires, its_channel,
                    it.admitted, its_team, its_weight, its_permits);
            it.id := NULL;
            it := fencelock.v2_beside(it, it.fence, it.expires, its_team, its_weight);
            it := fencelock.v2_admit(it, now, its_id);
        END IF;
    ELSIF it.queued THEN
        standing := fencelock.v2_look(it, its_id, ttl_us, its_channel, its_owner, now);
    END IF;

    IF standing IS NULL THEN
        free := it.id IS NULL
             OR its_team <> '' AND it.id = '' AND its_team = it.team
            AND it.used + its_weight <= its_permits
            AND NOT EXISTS (
                SELECT 1 FROM fencelock.tickets t WHERE t.name = its_name AND t.fence > it.fence);
        IF if_free AND NOT free THEN
            standing := '3 0 0 ' || CASE WHEN its_team LIKE 'rate %'
                THEN fencelock.v2_room(it, its_team, its_weight, its_permits) - now ELSE 0 END;
        ELSE
            -- The clock keeps fences growing even if the last fence was lost.
            it.newest := greatest(it.newest + 1, now, lowest);
        END IF;
    END IF;
    IF standing IS NULL AND free AND its_team = '' THEN
        it.queued := false;
        it.id := its_id;
        it.fence := it.newest;
        it.owner := its_owner;
        it.admitted := now;
        it.expires := now + ttl_us;
    ELSIF standing IS NULL THEN
        INSERT INTO fencelock.tickets
        VALUES (its_name, it.newest, its_id, its_owner, now,
                now + CASE WHEN free THEN lives_us ELSE ttl_us END, its_channel,
                CASE WHEN free THEN now END, its_team, its_weight, its_permits);
        it.queued := true;
        IF free THEN
            it := fencelock.v2_beside(it, it.newest, now + lives_us, its_team, its_weight);
        ELSE
            standing := fencelock.v2_waiting(it, it.newest, now);
        END IF;
    END IF;

    IF it IS DISTINCT FROM before THEN
        PERFORM fencelock.v2_store(it);
    END IF;
    IF standing IS NULL THEN
        standing := concat_ws(' ', 2, it.newest, it.abandoned::int, 0);
        IF it.newest % 64 = 0 THEN
            PERFORM fencelock.v2_sweep(now);
        END IF;
    END IF;
    RETURN standing;
END $$;

-- The fast path for a ticket that holds alone: one statement if the name is free, as in most cases, and two if
-- the ticket has to wait behind another exclusive holder, as in most other cases. Arguments: as in v2_join.
CREATE OR REPLACE FUNCTION fencelock.v2_enter(
    its_name text, its_id text, ttl_us bigint, its_channel text, its_owner text, if_free boolean
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    began         timestamptz := clock_timestamp();
    ended         timestamptz;
    now           bigint := date_part('epoch', began) * 1e6;
    free          boolean;
    flag          boolean;
    its_fence     bigint;
    holders_fence bigint;
    ahead_expires bigint;
BEGIN
    UPDATE fencelock.names n
       SET newest = greatest(n.newest + 1, now), queued = n.id IS NOT NULL, id = coalesce(n.id, its_id),
           fence = CASE WHEN n.id IS NULL THEN greatest(n.newest + 1, now) ELSE n.fence END,
           owner = CASE WHEN n.id IS NULL THEN its_owner ELSE n.owner END,
           admitted = CASE WHEN n.id IS NULL THEN now ELSE n.admitted END,
           expires = CASE WHEN n.id IS NULL THEN now + ttl_us ELSE n.expires END
     WHERE n.name = its_name
       AND (n.id IS NULL OR NOT if_free AND n.id <> '' AND n.id <> its_id AND n.expires > now)
    RETURNING n.id = its_id, n.abandoned, n.newest, n.fence, n.expires, clock_timestamp()
         INTO free, flag, its_fence, holders_fence, ahead_expires, ended;
    IF free THEN
        -- This call had to wait for the row lock: the lease begins now.
        IF ended - began > interval '1 ms' THEN
            now := fencelock.v2_now();
            UPDATE fencelock.names n SET admitted = now, expires = now + ttl_us WHERE n.name = its_name;
        END IF;
        IF its_fence % 64 = 0 THEN
            PERFORM fencelock.v2_sweep(now);
        END IF;
        RETURN '2 ' || its_fence || CASE WHEN flag THEN ' 1 0' ELSE ' 0 0' END;
    ELSIF NOT free THEN
        now := date_part('epoch', ended) * 1e6;
        INSERT INTO fencelock.tickets
        VALUES (its_name, its_fence, its_id, its_owner, now, now + ttl_us, its_channel)
            ON CONFLICT (name, id) DO NOTHING
        RETURNING coalesce((SELECT t.expires FROM fencelock.tickets t
                             WHERE t.name = its_name AND t.fence > holders_fence AND t.fence < its_fence
                             ORDER BY t.fence DESC LIMIT 1), ahead_expires)
             INTO ahead_expires;
        IF ahead_expires > now THEN
            RETURN '1 ' || its_fence || ' 0 ' || ahead_expires - now;
        END IF;
    END IF;
    -- The name is new or shared, its holder has expired, or this ticket was in the queue before.
    RETURN fencelock.v2_join(its_name, its_id, ttl_us, its_channel, its_owner, if_free, 1, '', 1, 1);
END $$;

-- Join several queues, each only if admitted at once. Returns the standings, in order. After the first refusal
-- the rest is refused without a look. Arguments: as in v2_join, as arrays with one item for each ticket.
CREATE OR REPLACE FUNCTION fencelock.v2_enter_free(
    its_names text[], its_ids text[], ttls_us bigint[], its_channel text, its_owners text[],
    lowests bigint[], its_teams text[], its_weights bigint[], its_permits bigint[]
) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    standing text := '';
BEGIN
    -- Lock all rows first. All calls use the same order, so that two calls can't deadlock.
    INSERT INTO fencelock.names (name, newest)
    SELECT asked.name, a.floor FROM unnest(its_names) AS asked (name), fencelock.about a
     ORDER BY asked.name COLLATE "C"
        ON CONFLICT DO NOTHING;
    PERFORM 1 FROM fencelock.names n WHERE n.name = ANY (its_names) ORDER BY n.name FOR UPDATE;
    FOR i IN 1 .. array_length(its_ids, 1) LOOP
        IF standing <> '3 0 0 0' THEN
            standing := fencelock.v2_join(its_names[i], its_ids[i], ttls_us[i], its_channel, its_owners[i],
                true, lowests[i], its_teams[i], its_weights[i], its_permits[i]);
        END IF;
        RETURN NEXT standing;
    END LOOP;
END $$;
