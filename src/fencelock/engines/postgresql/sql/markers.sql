-- Markers: how a release wakes one waiter, and no other session. See markers.py.
-- A ticket's marker is an advisory lock of the session that it waits and holds with. The next ticket in the queue
-- waits for that lock.

-- The lock that is a ticket's marker.
CREATE OR REPLACE FUNCTION fencelock.v2_marker(its_id text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(its_id, 0)
$$;

-- Join a queue. A ticket that has to wait gets its marker before any other session can see the ticket. It goes
-- without, if a session of a connection that its client has lost still has the marker: this transaction has locked
-- the name's row, so it waits for nobody.
-- Arguments: as in v2_enter.
CREATE OR REPLACE FUNCTION fencelock.v2_enter_marked(
    its_name text, its_id text, ttl_us bigint, its_owner text
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    standing text := fencelock.v2_enter(its_name, its_id, ttl_us, '', its_owner, false);
BEGIN
    IF standing LIKE '1 %' THEN
        PERFORM pg_try_advisory_lock(fencelock.v2_marker(its_id));
    END IF;
    RETURN standing;
END $$;

-- Wait until the ticket ahead has left. Returns the standing of this ticket if it was admitted, 'wait' if the time
-- is up, and else 'look': the ticket ahead has no marker, or another ticket is ahead now.
--   at_most   milliseconds to wait. Only for a moment: this statement keeps vacuum from its work
CREATE OR REPLACE FUNCTION fencelock.v2_wait_marked(
    its_name text, its_id text, at_most int
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    its_fence bigint;
    ahead     text;
    otherwise text := 'look';
BEGIN
    SELECT t.fence INTO its_fence FROM fencelock.tickets t WHERE t.name = its_name AND t.id = its_id;
    SELECT t.id INTO ahead FROM fencelock.tickets t
     WHERE t.name = its_name AND t.fence < its_fence AND t.admitted IS NULL ORDER BY t.fence DESC LIMIT 1;
    IF NOT FOUND THEN
        SELECT n.id INTO ahead FROM fencelock.names n WHERE n.name = its_name;
    END IF;
    IF ahead <> its_id THEN
        BEGIN
            PERFORM set_config('lock_timeout', at_most::text, true);
            PERFORM pg_advisory_xact_lock_shared(fencelock.v2_marker(ahead));
        EXCEPTION WHEN lock_not_available THEN
            otherwise := 'wait';
        END;
    END IF;
    RETURN coalesce((SELECT concat_ws(' ', 2, n.fence, n.abandoned::int, 0) FROM fencelock.names n
                      WHERE n.name = its_name AND n.id = its_id), otherwise);
END $$;

-- Take a ticket out of its queue, in the session that has its marker. The marker goes with the commit: the waiter
-- that this wakes sees what was committed. Arguments: as in v2_take_out.
CREATE OR REPLACE FUNCTION fencelock.v2_leave_marked(
    its_name text, its_id text, departure int
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_try_advisory_xact_lock(fencelock.v2_marker(its_id)), pg_advisory_unlock_all();
    RETURN fencelock.v2_leave(its_name, its_id, departure);
END $$;

-- Give up the marker of this session's ticket, which stays in the queue.
CREATE OR REPLACE FUNCTION fencelock.v2_unmark() RETURNS text LANGUAGE sql AS $$
    SELECT pg_advisory_unlock_all()::text
$$;
