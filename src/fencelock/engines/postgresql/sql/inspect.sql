-- The holders and waiters of a name. Returns lines: first "NEWEST ABANDONED HOLDERS WAITING", then for each
-- holder and each of the first waiters "FENCE SINCE_US EXPIRES_US WEIGHT PERMITS<tab>GROUP<tab>OWNER". No ids.
--   most   how many waiters to list
CREATE OR REPLACE FUNCTION fencelock.v2_inspect(
    its_name text, most int
) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    it     fencelock.names;
    before fencelock.names;
    now    bigint;
BEGIN
    SELECT * INTO it FROM fencelock.names n WHERE n.name = its_name FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NEXT '0 0 0 0';
        RETURN;
    END IF;
    now := fencelock.v2_now();
    before := it;
    it := fencelock.v2_settle(it, now, '');
    IF it IS DISTINCT FROM before THEN
        PERFORM fencelock.v2_store(it);
    END IF;
    RETURN NEXT concat_ws(' ', it.newest, it.abandoned::int,
        CASE WHEN it.id = '' THEN it.sharers WHEN it.id IS NOT NULL THEN 1 ELSE 0 END,
        (SELECT count(*) FROM fencelock.tickets t
          WHERE t.name = its_name AND t.fence > it.fence AND t.expires > now));
    IF it.id <> '' THEN
        RETURN NEXT concat_ws(' ', it.fence, now - it.admitted, it.expires - now, 1, 1)
            || E'\t\t' || it.owner;
    END IF;
    RETURN QUERY
    SELECT concat_ws(' ', t.fence, now - coalesce(t.admitted, t.joined), t.expires - now,
                     t.weight, t.permits) || E'\t' || t.team || E'\t' || t.owner
      FROM fencelock.tickets t
     WHERE t.name = its_name AND t.expires > now
     ORDER BY t.fence LIMIT most::bigint + CASE WHEN it.id = '' THEN it.sharers ELSE 0 END;
END $$;

-- The names that are held or waited for, one row each.
CREATE OR REPLACE FUNCTION fencelock.v2_names() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    now bigint := fencelock.v2_now();
BEGIN
    RETURN QUERY
    SELECT n.name FROM fencelock.names n
     WHERE n.id IS NOT NULL AND (n.id <> '' AND n.expires > now OR EXISTS (
           SELECT 1 FROM fencelock.tickets t WHERE t.name = n.name AND t.expires > now));
END $$;

-- Take out all holders of a name. An exclusive holder counts as lost. Returns false if there was none.
CREATE OR REPLACE FUNCTION fencelock.v2_evict(its_name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    it        fencelock.names;
    now       bigint;
    was_there boolean;
BEGIN
    SELECT * INTO it FROM fencelock.names n WHERE n.name = its_name FOR UPDATE;
    IF it.id IS NULL THEN
        RETURN false;
    END IF;
    now := fencelock.v2_now();
    -- A waiter that this call admits is evicted, too, and must not be told that it was admitted.
    it := fencelock.v2_settle(it, now, NULL);
    was_there := it.id IS NOT NULL;
    IF it.id = '' THEN
        DELETE FROM fencelock.tickets t WHERE t.name = its_name AND t.fence <= it.fence;
    ELSIF was_there THEN
        it.abandoned := true;
    END IF;
    it.id := NULL;
    PERFORM fencelock.v2_store(fencelock.v2_admit(it, now, ''));
    RETURN was_there;
END $$;

-- For clients that can't be notified: a row "ID STANDING" for each of these tickets that was admitted.
--   its_names, its_ids   one item for each ticket
CREATE OR REPLACE FUNCTION fencelock.v2_admitted(
    its_names text[], its_ids text[]
) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT concat_ws(' ', n.id, 2, n.fence, n.abandoned::int, 0) FROM fencelock.names n
     WHERE n.name = ANY (its_names) AND n.id = ANY (its_ids)
     UNION ALL
    SELECT concat_ws(' ', t.id, 2, t.fence, n.abandoned::int, 0)
      FROM unnest(its_names, its_ids) AS asked (name, id)
      JOIN fencelock.tickets t ON t.name = asked.name AND t.id = asked.id AND t.admitted IS NOT NULL
      JOIN fencelock.names n ON n.name = t.name
$$;
