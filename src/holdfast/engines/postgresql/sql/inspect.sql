-- Who holds and who waits. Returns lines: first "NEWEST ABANDONED HOLDERS WAITING", then of the holder
-- and of the first waiters "FENCE SINCE_US EXPIRES_US OWNER", without their ids.
CREATE OR REPLACE FUNCTION holdfast.v1_inspect(
    its_name text, most int
) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    it  holdfast.names;
    now bigint;
BEGIN
    SELECT * INTO it FROM holdfast.names n WHERE n.name = its_name FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NEXT '0 0 0 0';
        RETURN;
    END IF;
    now := holdfast.v1_now();
    IF it.expires <= now THEN
        it := holdfast.v1_pass_on(its_name, true, now, '');
    END IF;
    RETURN NEXT concat_ws(' ', it.newest, it.abandoned::int, (it.id IS NOT NULL)::int,
        (SELECT count(*) FROM holdfast.waiters w WHERE w.name = its_name AND w.expires > now));
    IF it.id IS NOT NULL THEN
        RETURN NEXT concat_ws(' ', it.fence, now - it.admitted, it.expires - now, it.owner);
    END IF;
    RETURN QUERY
    SELECT concat_ws(' ', w.fence, now - w.joined, w.expires - now, w.owner)
      FROM holdfast.waiters w
     WHERE w.name = its_name AND w.expires > now
     ORDER BY w.fence LIMIT most;
END $$;

-- The names that are held or waited for.
CREATE OR REPLACE FUNCTION holdfast.v1_names() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    now bigint := holdfast.v1_now();
BEGIN
    RETURN QUERY
    SELECT n.name FROM holdfast.names n
     WHERE n.id IS NOT NULL AND (n.expires > now OR EXISTS (
           SELECT 1 FROM holdfast.waiters w WHERE w.name = n.name AND w.expires > now));
END $$;

-- Take out the holder, whoever it is, and pass the lock on as abandoned. False: there was none.
CREATE OR REPLACE FUNCTION holdfast.v1_evict(its_name text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    it  holdfast.names;
    now bigint;
BEGIN
    SELECT * INTO it FROM holdfast.names n WHERE n.name = its_name FOR UPDATE;
    now := holdfast.v1_now();
    IF it.expires <= now THEN
        -- One that is admitted on the way here is evicted too, and must not hear otherwise.
        it := holdfast.v1_pass_on(its_name, true, now, NULL);
    END IF;
    IF it.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM holdfast.v1_pass_on(its_name, true, now, '');
    RETURN true;
END $$;

-- Which of these tickets have been admitted, as "ID STANDING": for clients that can't be told.
CREATE OR REPLACE FUNCTION holdfast.v1_admitted(
    its_names text[], its_ids text[]
) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT concat_ws(' ', n.id, 2, n.fence, n.abandoned::int, 0) FROM holdfast.names n
     WHERE n.name = ANY (its_names) AND n.id = ANY (its_ids)
$$;
