-- Extend many tickets, holding or waiting. Never brings a ticket back. Answers with their standings, in order.
--   tickets   for each ticket the length of its name in 4 digits, the name, the length of its id in 4 digits, the
--             id, and the ttl in µs in 16 digits. Sorted by name, so that two renewals can't deadlock.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_renew(tickets LONGBLOB)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment, ttl_us, last_fence, holder_expires BIGINT;
    DECLARE at, size INT DEFAULT 1;
    DECLARE was_abandoned, is_queued, missing BOOLEAN;
    DECLARE its_name VARBINARY(512);
    DECLARE its_id, holder_id VARBINARY(64);
    DECLARE bells, standings LONGBLOB DEFAULT '';
    DECLARE standing VARBINARY(80);
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    WHILE at < LENGTH(tickets) DO
        SET size = SUBSTRING(tickets, at, 4), its_name = SUBSTRING(tickets, at + 4, size);
        SET at = at + 4 + size;
        SET size = SUBSTRING(tickets, at, 4), its_id = SUBSTRING(tickets, at + 4, size);
        SET at = at + 4 + size;
        SET ttl_us = SUBSTRING(tickets, at, 16), at = at + 16;

        SET missing = FALSE, standing = NULL, holder_id = NULL, holder_expires = NULL;
        SELECT abandoned, queued, id, fence, expires
          INTO was_abandoned, is_queued, holder_id, last_fence, holder_expires
          FROM fencelock_names WHERE name = its_name FOR UPDATE;
        SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
        IF holder_expires <= moment OR holder_id = '' THEN
            CALL fencelock_v2_settle(its_name, moment, its_id, bells);
            SELECT abandoned, queued, id, fence, expires
              INTO was_abandoned, is_queued, holder_id, last_fence, holder_expires
              FROM fencelock_names WHERE name = its_name;
        END IF;
        IF holder_id = its_id THEN
            UPDATE fencelock_names SET expires = GREATEST(expires, moment + ttl_us)
             WHERE name = its_name;
            SET standing = CONCAT('2 ', last_fence, ' ', was_abandoned, ' 0');
        ELSEIF holder_id IS NOT NULL AND is_queued THEN
            CALL fencelock_v2_look(its_name, its_id, ttl_us, NULL, NULL, moment,
                was_abandoned, holder_id, last_fence, holder_expires, standing);
        END IF;
        SET standings = CONCAT(standings, COALESCE(standing, '0 0 0 0'), '\n');
    END WHILE;
    COMMIT;
    CALL fencelock_v2_ring(bells);
    SELECT standings;
END
//
