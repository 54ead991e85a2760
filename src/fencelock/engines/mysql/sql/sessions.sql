-- For mysql+getlock:// only: MySQL's own session locks, with a fence and a name for each.
-- The lock of a name is a GET_LOCK named after a hash of the name. A waiting session also holds a GET_LOCK named
-- after its ticket, as a sign that it lives. IS_USED_LOCK tells which connection has them. Both end with the
-- connection.
-- Arguments that come again and again:
--   its_name, its_id   the ticket
--   its_hash           the hash of the name, which the server locks
--   its_owner          host, pid and label, for people
--   lowest             the lowest fence that the ticket may get
--   departure          0 released, 1 lost, 2 withdrawn (then the end of the holder before it still counts)

-- What outlasts a lock: its fence, and whether its last holder released. The same row has that holder, so to
-- take and release a lock updates one row. The hash is unique here: that is how two names with the same hash are
-- found.
CREATE TABLE IF NOT EXISTS fencelock_counters (
    name       VARBINARY(512)  NOT NULL PRIMARY KEY,
    hash       VARBINARY(64)   NOT NULL UNIQUE,
    newest     BIGINT          NOT NULL,                -- the last fence handed out
    holder     VARBINARY(64),                           -- the id of the last holder, unless it released
    abandoned  BOOLEAN         NOT NULL DEFAULT FALSE,  -- what it learned about the holder before it
    -- The last holder. It holds the name as long as its connection has the lock.
    connection BIGINT UNSIGNED,
    owner      VARBINARY(8000),                         -- host, pid and label, for people
    admitted   BIGINT
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- The tickets that wait.
CREATE TABLE IF NOT EXISTS fencelock_sessions (
    id         VARBINARY(64)   NOT NULL PRIMARY KEY,
    name       VARBINARY(512)  NOT NULL,
    hash       VARBINARY(64)   NOT NULL,
    connection BIGINT UNSIGNED NOT NULL,
    owner      VARBINARY(8000) NOT NULL,
    joined     BIGINT          NOT NULL,
    KEY by_name (name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- Make sure that the name has a counter, and that no other name has the same hash.
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_count(
    its_name VARBINARY(512), its_hash VARBINARY(64)
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE other VARBINARY(512);
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT name INTO other FROM fencelock_counters WHERE hash = its_hash;
    IF other IS NULL THEN
        INSERT INTO fencelock_counters (name, hash, newest) VALUES (its_name, its_hash, 0)
            ON DUPLICATE KEY UPDATE hash = IF(name = its_name, its_hash, hash);  -- the database was renamed
        SELECT name INTO other FROM fencelock_counters WHERE hash = its_hash;
    END IF;
    IF COALESCE(other, '') <> its_name THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'another name has the same hash';
    END IF;
END
//
-- Delete the rows of dead sessions, and of names that have not been used for long.
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_sweep()
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
    DELETE FROM fencelock_sessions
     WHERE joined < moment - 60000000 AND IS_USED_LOCK(CONCAT('fencelock.', MD5(id))) IS NULL;
    DELETE FROM fencelock_counters
     WHERE newest > 0 AND newest < moment - IF(holder IS NULL, 3600000000, 86400000000)
       AND IS_USED_LOCK(hash) IS NULL
       AND NOT EXISTS (SELECT 1 FROM fencelock_sessions s WHERE s.name = fencelock_counters.name)
     LIMIT 256;
END
//
-- Take the lock in this session if it is free. Answers with a standing. If that is "waiting", the client calls
-- GET_LOCK(its_hash) in this session next, and then fencelock_v3_session_admit.
--   if_free   don't wait
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_enter(
    its_name VARBINARY(512), its_id VARBINARY(64), its_hash VARBINARY(64), its_owner VARBINARY(8000),
    lowest BIGINT, if_free BOOLEAN
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    IF GET_LOCK(its_hash, 0) = 1 THEN
        granting: LOOP
            UPDATE fencelock_counters
               SET admitted = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)),
                   newest = GREATEST(newest + 1, admitted, lowest), abandoned = holder IS NOT NULL,
                   holder = its_id, owner = its_owner,
                   connection = CONNECTION_ID() + 0 * LAST_INSERT_ID(2 * newest + abandoned)
             WHERE name = its_name AND hash = its_hash;
            IF ROW_COUNT() = 1 THEN
                LEAVE granting;
            END IF;
            CALL fencelock_v3_session_count(its_name, its_hash);
        END LOOP;
        SELECT CONCAT('2 ', LAST_INSERT_ID() DIV 2, ' ', LAST_INSERT_ID() % 2, ' 0');
        IF LAST_INSERT_ID() DIV 2 % 64 = 0 THEN
            CALL fencelock_v3_session_sweep();
        END IF;
    ELSE
        CALL fencelock_v3_session_count(its_name, its_hash);
        IF if_free THEN
            SELECT '3 0 0 0';
        ELSE
            DO GET_LOCK(CONCAT('fencelock.', MD5(its_id)), 0);
            INSERT INTO fencelock_sessions (id, name, hash, connection, owner, joined)
            VALUES (its_id, its_name, its_hash, CONNECTION_ID(), its_owner,
                    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)))
                ON DUPLICATE KEY UPDATE connection = CONNECTION_ID();
            SELECT '1 0 0 3600000000';
        END IF;
    END IF;
END
//
-- Give a fence to the ticket of this session, which has waited for the lock and has it now: a second GET_LOCK in
-- the same session succeeds at once. Answers with a standing.
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_admit(
    its_name VARBINARY(512), its_id VARBINARY(64), its_hash VARBINARY(64), its_owner VARBINARY(8000),
    lowest BIGINT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    IF COALESCE(IS_USED_LOCK(its_hash), 0) <> CONNECTION_ID() THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this session does not have the lock';
    END IF;
    CALL fencelock_v3_session_enter(its_name, its_id, its_hash, its_owner, lowest, TRUE);
    DELETE FROM fencelock_sessions WHERE id = its_id;
END
//
-- Release the lock of this session. Answers nothing, or 0 if the session did not have it.
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_leave(
    its_name VARBINARY(512), its_id VARBINARY(64), departure INT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    UPDATE fencelock_counters SET holder = IF(departure = 1 OR departure = 2 AND abandoned, holder, NULL)
     WHERE name = its_name AND holder = its_id;
    IF RELEASE_ALL_LOCKS() = 0 THEN
        SELECT 0;
    END IF;
END
//
-- End the session of a ticket from another session. Answers 1, or 0 if it was dead. The server frees the locks of
-- a killed session a moment later. This procedure waits for that, for about half a second at most, so that the
-- caller finds the name free.
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_end(
    its_name VARBINARY(512), its_id VARBINARY(64), departure INT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE its_sign VARBINARY(64) DEFAULT CONCAT('fencelock.', MD5(its_id));
    DECLARE its_connection BIGINT UNSIGNED DEFAULT IS_USED_LOCK(its_sign);
    DECLARE its_hash VARBINARY(64)
        DEFAULT COALESCE((SELECT hash FROM fencelock_counters WHERE name = its_name), its_sign);
    DECLARE looks INT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE CONTINUE HANDLER FOR 1094 SET its_connection = NULL;  -- the connection is gone
    IF its_connection IS NULL THEN
        SELECT connection INTO its_connection FROM fencelock_counters
         WHERE name = its_name AND holder = its_id AND IS_USED_LOCK(hash) = connection;
    END IF;
    IF its_connection IS NOT NULL THEN
        KILL CONNECTION its_connection;
    END IF;
    UPDATE fencelock_counters SET holder = IF(departure = 1 OR departure = 2 AND abandoned, holder, NULL)
     WHERE name = its_name AND holder = its_id;
    DELETE FROM fencelock_sessions WHERE id = its_id;
    WHILE looks < 500 AND its_connection IN (IS_USED_LOCK(its_sign), IS_USED_LOCK(its_hash)) DO
        DO SLEEP(0.001);
        SET looks = looks + 1;
    END WHILE;
    SELECT its_connection IS NOT NULL;
END
//
-- The standing of a ticket: "gone" unless its session lives and has its locks.
--   standing   the result
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_look(
    its_name VARBINARY(512), its_id VARBINARY(64), OUT standing VARBINARY(64)
)
READS SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE found VARBINARY(64);
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT CONCAT('2 ', newest, ' ', abandoned, ' 0') INTO found FROM fencelock_counters
     WHERE name = its_name AND holder = its_id AND IS_USED_LOCK(hash) = connection;
    IF found IS NULL THEN
        SELECT '1 0 0 3600000000' INTO found FROM fencelock_sessions
         WHERE id = its_id AND IS_USED_LOCK(CONCAT('fencelock.', MD5(id))) = connection;
    END IF;
    SET standing = COALESCE(found, '0 0 0 0');
END
//
-- The heartbeat of all sessions of a client. Answers with standings, in order.
--   tickets   for each ticket the length of its name in 4 digits, the name, the length of its id in 4 digits, the id
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_renew(tickets LONGBLOB)
READS SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE at, size INT DEFAULT 1;
    DECLARE its_name VARBINARY(512);
    DECLARE its_id, standing VARBINARY(64);
    DECLARE standings LONGBLOB DEFAULT '';
    WHILE at < LENGTH(tickets) DO
        SET size = SUBSTRING(tickets, at, 4), its_name = SUBSTRING(tickets, at + 4, size);
        SET at = at + 4 + size;
        SET size = SUBSTRING(tickets, at, 4), its_id = SUBSTRING(tickets, at + 4, size);
        SET at = at + 4 + size;
        CALL fencelock_v3_session_look(its_name, its_id, standing);
        SET standings = CONCAT(standings, standing, '\n');
    END WHILE;
    SELECT standings;
END
//
-- Store the new owner of a ticket. Answers with its standing.
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_rename(
    its_name VARBINARY(512), its_id VARBINARY(64), its_owner VARBINARY(8000)
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE standing VARBINARY(64);
    UPDATE fencelock_counters SET owner = its_owner WHERE name = its_name AND holder = its_id;
    UPDATE fencelock_sessions SET owner = its_owner WHERE id = its_id;
    CALL fencelock_v3_session_look(its_name, its_id, standing);
    SELECT standing;
END
//
-- Like fencelock_v2_inspect. Nothing expires here, so EXPIRES_US is -1.
--   most   how many waiters to list
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_inspect(its_name VARBINARY(512), most INT)
READS SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    DECLARE its_newest, its_admitted BIGINT DEFAULT 0;
    DECLARE was_abandoned, is_owed, is_held BOOLEAN DEFAULT FALSE;
    DECLARE its_owner VARBINARY(8000);
    DECLARE behind BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT newest, abandoned, holder IS NOT NULL,
           holder IS NOT NULL AND COALESCE(IS_USED_LOCK(hash) = connection, FALSE), owner, admitted
      INTO its_newest, was_abandoned, is_owed, is_held, its_owner, its_admitted
      FROM fencelock_counters WHERE name = its_name;
    -- A session counts as a waiter once its GET_LOCK has arrived in the server. We can't see the state of other
    -- users' sessions: they always count.
    SELECT COUNT(*) INTO behind
      FROM fencelock_sessions s LEFT JOIN information_schema.PROCESSLIST p ON p.ID = s.connection
     WHERE s.name = its_name AND IS_USED_LOCK(CONCAT('fencelock.', MD5(s.id))) = s.connection
       AND (p.ID IS NULL OR p.STATE = 'User lock' OR IS_USED_LOCK(s.hash) = s.connection);
    SELECT CONCAT_WS(' ', its_newest, IF(is_held, was_abandoned, is_owed), is_held, behind);
    SELECT CONCAT(CONCAT_WS(' ', its_newest, moment - its_admitted, -1, 1, 1), '\t\t', its_owner)
      FROM DUAL WHERE is_held;
    SELECT CONCAT(CONCAT_WS(' ', 0, moment - joined, -1, 1, 1), '\t\t', owner) FROM fencelock_sessions
     WHERE name = its_name AND IS_USED_LOCK(CONCAT('fencelock.', MD5(id))) = connection
     ORDER BY joined LIMIT most;
END
//
-- The names that are held or waited for, one row each.
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_names()
READS SQL DATA SQL SECURITY INVOKER
BEGIN
    SELECT name FROM fencelock_counters WHERE holder IS NOT NULL AND IS_USED_LOCK(hash) = connection
     UNION
    SELECT name FROM fencelock_sessions WHERE IS_USED_LOCK(CONCAT('fencelock.', MD5(id))) = connection;
END
//
-- End the session of the holder. Answers 1, or 0 if there was none.
CREATE PROCEDURE IF NOT EXISTS fencelock_v3_session_evict(its_name VARBINARY(512))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE holder_id VARBINARY(64);
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT holder INTO holder_id FROM fencelock_counters
     WHERE name = its_name AND IS_USED_LOCK(hash) = connection;
    IF holder_id IS NULL THEN
        SELECT 0;
    ELSE
        CALL fencelock_v3_session_end(its_name, holder_id, 1);
    END IF;
END
//
