-- For mysql+getlock:// only: MySQL's own session locks, with a fence and a name for each.
-- A session has two of them: the lock itself, named after a hash, and its sign of life, named after its
-- ticket. IS_USED_LOCK says whose they are; both end with the connection.

-- What outlasts a lock: its fence, and whether its last holder released. That a hash is unique here is how
-- two names with one hash are found out.
CREATE TABLE IF NOT EXISTS holdfast_counters (
    name       VARBINARY(512)  NOT NULL PRIMARY KEY,
    hash       VARBINARY(64)   NOT NULL UNIQUE,
    newest     BIGINT          NOT NULL,                -- the last fence handed out
    holder     VARBINARY(64),                           -- the id of the last holder, unless it released
    abandoned  BOOLEAN         NOT NULL DEFAULT FALSE   -- what that one was told about the one before it
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- Who is behind a session, for people.
CREATE TABLE IF NOT EXISTS holdfast_sessions (
    id         VARBINARY(64)   NOT NULL PRIMARY KEY,
    name       VARBINARY(512)  NOT NULL,
    hash       VARBINARY(64)   NOT NULL,
    connection BIGINT UNSIGNED NOT NULL,
    owner      VARBINARY(8000) NOT NULL,
    joined     BIGINT          NOT NULL,
    fence      BIGINT,                                  -- from its admission on
    admitted   BIGINT,
    KEY by_name (name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
//
-- Owners were shorter in version 1.
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_upgrade()
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    IF EXISTS (SELECT 1 FROM information_schema.COLUMNS
                WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'holdfast_sessions'
                  AND COLUMN_NAME = 'owner' AND CHARACTER_MAXIMUM_LENGTH < 8000) THEN
        ALTER TABLE holdfast_sessions MODIFY owner VARBINARY(8000) NOT NULL;
    END IF;
END
//
CALL holdfast_v2_session_upgrade()
//
-- The session that asks has the lock: give it a fence. Answers with a standing.
-- lowest: the lowest fence that it may get
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_admit(
    its_name VARBINARY(512), its_id VARBINARY(64), its_hash VARBINARY(64), its_owner VARBINARY(8000),
    lowest BIGINT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment, its_fence BIGINT;
    DECLARE was_abandoned BOOLEAN;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    IF COALESCE(IS_USED_LOCK(its_hash), 0) <> CONNECTION_ID() THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this session does not have the lock';
    END IF;
    START TRANSACTION;
    UPDATE holdfast_counters
       SET newest = GREATEST(newest + 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)), lowest),
           abandoned = holder IS NOT NULL, holder = its_id
     WHERE name = its_name;
    IF ROW_COUNT() = 0 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the counter of this name is not there any more';
    END IF;
    SELECT newest, abandoned INTO its_fence, was_abandoned FROM holdfast_counters WHERE name = its_name;
    SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    INSERT INTO holdfast_sessions (id, name, hash, connection, owner, joined, fence, admitted)
    VALUES (its_id, its_name, its_hash, CONNECTION_ID(), its_owner, moment, its_fence, moment)
        ON DUPLICATE KEY UPDATE
           connection = CONNECTION_ID(), owner = its_owner, fence = its_fence, admitted = moment;
    COMMIT;
    SELECT CONCAT('2 ', its_fence, ' ', was_abandoned, ' 0');
END
//
-- Forget sessions that are dead, and names that nobody has used for long.
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_sweep()
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
    DELETE FROM holdfast_sessions
     WHERE joined < moment - 60000000 AND IS_USED_LOCK(CONCAT('holdfast.', MD5(id))) IS NULL;
    DELETE FROM holdfast_counters
     WHERE newest > 0 AND newest < moment - IF(holder IS NULL, 3600000000, 86400000000)
       AND IS_USED_LOCK(hash) IS NULL
       AND NOT EXISTS (SELECT 1 FROM holdfast_sessions s WHERE s.name = holdfast_counters.name)
     LIMIT 256;
END
//
-- Take the lock in this session if it is free. Answers with a standing; "waiting" means that the session is
-- to ask for GET_LOCK(its_hash) now, and then for its admission.
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_enter(
    its_name VARBINARY(512), its_id VARBINARY(64), its_hash VARBINARY(64), its_owner VARBINARY(8000),
    lowest BIGINT, if_free BOOLEAN
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    DECLARE other VARBINARY(512);
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT name INTO other FROM holdfast_counters WHERE hash = its_hash;
    IF other IS NULL THEN
        INSERT INTO holdfast_counters (name, hash, newest) VALUES (its_name, its_hash, 0)
            ON DUPLICATE KEY UPDATE newest = newest;
        SELECT name INTO other FROM holdfast_counters WHERE hash = its_hash;
    END IF;
    IF other <> its_name THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'another name has the same hash';
    END IF;
    IF moment % 64 = 0 THEN
        CALL holdfast_v2_session_sweep();
    END IF;
    DO GET_LOCK(CONCAT('holdfast.', MD5(its_id)), 0);
    IF GET_LOCK(its_hash, 0) = 1 THEN
        CALL holdfast_v2_session_admit(its_name, its_id, its_hash, its_owner, lowest);
    ELSEIF if_free THEN
        DO RELEASE_ALL_LOCKS();
        SELECT '3 0 0 0';
    ELSE
        INSERT INTO holdfast_sessions (id, name, hash, connection, owner, joined)
        VALUES (its_id, its_name, its_hash, CONNECTION_ID(), its_owner, moment)
            ON DUPLICATE KEY UPDATE connection = CONNECTION_ID();
        SELECT '1 0 0 3600000000';
    END IF;
END
//
-- Give back the lock that this session has. Answers 1, or 0: it did not have it.
-- departure: 0 released, 1 lost, 2 withdrawn (how the holder before it ended still counts)
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_leave(
    its_name VARBINARY(512), its_id VARBINARY(64), its_hash VARBINARY(64), departure INT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE was_there BOOLEAN DEFAULT COALESCE(IS_USED_LOCK(its_hash) = CONNECTION_ID(), FALSE);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    UPDATE holdfast_counters SET holder = IF(departure = 1 OR departure = 2 AND abandoned, holder, NULL)
     WHERE name = its_name AND holder = its_id;
    DELETE FROM holdfast_sessions WHERE id = its_id;
    COMMIT;
    DO RELEASE_ALL_LOCKS();
    SELECT was_there;
END
//
-- End a ticket's session from another one. Answers 1, or 0: it was dead.
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_end(its_id VARBINARY(64), departure INT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE listener BIGINT UNSIGNED DEFAULT IS_USED_LOCK(CONCAT('holdfast.', MD5(its_id)));
    DECLARE CONTINUE HANDLER FOR 1094 SET listener = NULL;  -- no such connection any more
    IF listener IS NOT NULL THEN
        KILL CONNECTION listener;
    END IF;
    UPDATE holdfast_counters SET holder = IF(departure = 1 OR departure = 2 AND abandoned, holder, NULL)
     WHERE holder = its_id;
    DELETE FROM holdfast_sessions WHERE id = its_id;
    SELECT listener IS NOT NULL;
END
//
-- Whether sessions live and have their locks. ids: with commas. Answers with standings, in order.
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_renew(ids LONGBLOB)
READS SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE its_id, its_hash VARBINARY(64);
    DECLARE its_connection BIGINT UNSIGNED;
    DECLARE its_fence BIGINT;
    DECLARE was_abandoned BOOLEAN;
    DECLARE standings LONGBLOB DEFAULT '';
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET its_connection = NULL;
    WHILE ids <> '' DO
        SET its_id = SUBSTRING_INDEX(ids, ',', 1), ids = SUBSTRING(ids, LENGTH(its_id) + 2);
        SELECT s.hash, s.connection, s.fence, c.abandoned
          INTO its_hash, its_connection, its_fence, was_abandoned
          FROM holdfast_sessions s JOIN holdfast_counters c ON c.name = s.name WHERE s.id = its_id;
        SET standings = CONCAT(standings, CASE
            WHEN its_connection IS NULL
              OR COALESCE(IS_USED_LOCK(CONCAT('holdfast.', MD5(its_id))), 0) <> its_connection
            THEN '0 0 0 0'
            WHEN its_fence IS NULL THEN '1 0 0 3600000000'
            WHEN COALESCE(IS_USED_LOCK(its_hash), 0) = its_connection
            THEN CONCAT('2 ', its_fence, ' ', was_abandoned, ' 0')
            ELSE '0 0 0 0' END, '\n');
    END WHILE;
    SELECT standings;
END
//
-- A ticket's owner is another one from now on. Answers with its standing.
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_rename(
    its_id VARBINARY(64), its_owner VARBINARY(8000)
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    UPDATE holdfast_sessions SET owner = its_owner WHERE id = its_id;
    CALL holdfast_v2_session_renew(its_id);
END
//
-- As holdfast_v2_inspect; nothing expires here, so EXPIRES_US is -1.
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_inspect(its_name VARBINARY(512), most INT)
READS SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    DECLARE its_newest BIGINT DEFAULT 0;
    DECLARE was_abandoned, is_owed BOOLEAN DEFAULT FALSE;
    DECLARE holder_id VARBINARY(64);
    DECLARE behind BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT newest, abandoned, holder IS NOT NULL INTO its_newest, was_abandoned, is_owed
      FROM holdfast_counters WHERE name = its_name;
    SELECT id INTO holder_id FROM holdfast_sessions
     WHERE name = its_name AND fence IS NOT NULL AND IS_USED_LOCK(hash) = connection LIMIT 1;
    -- One counts as waiting once its GET_LOCK has arrived; of other users' sessions that can't be seen.
    SELECT COUNT(*) INTO behind
      FROM holdfast_sessions s LEFT JOIN information_schema.PROCESSLIST p ON p.ID = s.connection
     WHERE s.name = its_name AND s.fence IS NULL
       AND IS_USED_LOCK(CONCAT('holdfast.', MD5(s.id))) = s.connection
       AND (p.ID IS NULL OR p.STATE = 'User lock' OR IS_USED_LOCK(s.hash) = s.connection);
    SELECT CONCAT_WS(' ', its_newest, IF(holder_id IS NULL, is_owed, was_abandoned),
                     holder_id IS NOT NULL, behind);
    SELECT CONCAT(CONCAT_WS(' ', fence, moment - admitted, -1, 1, 1), '\t\t', owner)
      FROM holdfast_sessions
     WHERE id = holder_id;
    SELECT CONCAT(CONCAT_WS(' ', 0, moment - joined, -1, 1, 1), '\t\t', owner) FROM holdfast_sessions
     WHERE name = its_name AND fence IS NULL
       AND IS_USED_LOCK(CONCAT('holdfast.', MD5(id))) = connection
     ORDER BY joined LIMIT most;
END
//
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_names()
READS SQL DATA SQL SECURITY INVOKER
BEGIN
    SELECT DISTINCT name FROM holdfast_sessions
     WHERE IS_USED_LOCK(CONCAT('holdfast.', MD5(id))) = connection;
END
//
-- End the session of the holder, whoever it is. Answers 1, or 0: there was none.
CREATE PROCEDURE IF NOT EXISTS holdfast_v2_session_evict(its_name VARBINARY(512))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE holder_id VARBINARY(64);
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT id INTO holder_id FROM holdfast_sessions
     WHERE name = its_name AND fence IS NOT NULL AND IS_USED_LOCK(hash) = connection LIMIT 1;
    IF holder_id IS NULL THEN
        SELECT 0;
    ELSE
        CALL holdfast_v2_session_end(holder_id, 1);
    END IF;
END
//
