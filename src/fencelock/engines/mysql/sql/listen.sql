-- Sleep until a wake-up comes for a waiting ticket, or some time has passed. Answers with lines: "ID STANDING" for
-- a ticket that was admitted, "ID" for a ticket that should look again. The answer is empty after a sleep, and an
-- empty line if it can't sleep.
--   waiting     for each name its length in 4 digits, the name, the length of its list of ids in 8 digits, and that
--               list, with commas
--   its_latch   a GET_LOCK that another connection of the same client holds. To sleep is to wait for it. Why not
--               SLEEP(): in MariaDB, KILL and the sleeper that it wakes may block each other there, for seconds
--   seconds     how long to sleep
-- A client that admits a ticket commits first, and then ends our statement (fencelock_v2_ring). If our statement
-- has not begun by then, it will see the commit. If it has begun, KILL ends it wherever it is.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_listen(
    waiting LONGBLOB, its_latch VARBINARY(64), seconds DOUBLE
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE at, size INT DEFAULT 1;
    DECLARE its_name VARBINARY(512);
    DECLARE its_ids, news LONGBLOB DEFAULT '';
    DECLARE holder_id, nudged_id VARBINARY(64);
    DECLARE last_fence BIGINT;
    DECLARE was_abandoned BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET holder_id = NULL, nudged_id = NULL;
    WHILE at < LENGTH(waiting) DO
        SET size = SUBSTRING(waiting, at, 4), its_name = SUBSTRING(waiting, at + 4, size);
        SET at = at + 4 + size;
        SET size = SUBSTRING(waiting, at, 8), its_ids = SUBSTRING(waiting, at + 8, size);
        SET at = at + 8 + size;
        SELECT id, fence, abandoned, nudged INTO holder_id, last_fence, was_abandoned, nudged_id
          FROM fencelock_names WHERE name = its_name;
        IF holder_id = '' THEN
            SET news = CONCAT(news, COALESCE((
                SELECT GROUP_CONCAT(id, ' 2 ', fence, ' ', was_abandoned, ' 0\n' SEPARATOR '')
                  FROM fencelock_tickets
                 WHERE name = its_name AND fence <= last_fence AND FIND_IN_SET(id, its_ids)), ''));
        ELSEIF FIND_IN_SET(holder_id, its_ids) THEN
            SET news = CONCAT(news, holder_id, ' 2 ', last_fence, ' ', was_abandoned, ' 0\n');
        END IF;
        IF FIND_IN_SET(nudged_id, its_ids) THEN
            SET news = CONCAT(news, nudged_id, '\n');
            UPDATE fencelock_names SET nudged = NULL WHERE name = its_name AND nudged = nudged_id;
        END IF;
    END WHILE;
    /*!80000 SET seconds = CEIL(seconds); */  -- MySQL takes whole seconds only
    IF news <> '' THEN
        SELECT news;
    ELSEIF GET_LOCK(its_latch, seconds) THEN
        -- The connection that held the latch is gone. Release the latch for another connection. More than
        -- once, in case KILL ended an earlier call right here.
        REPEAT
            SET size = COALESCE(RELEASE_LOCK(its_latch), 0);
        UNTIL size = 0 END REPEAT;
        SELECT '';
    END IF;
END
//
