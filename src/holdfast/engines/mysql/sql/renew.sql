-- Extend many tickets, holding or waiting; never brings one back. Answers with their standings, in order.
-- tickets: for each the length of its name in 4 digits, the name, the length of its id in 4 digits, the id,
-- and the ttl in µs in 16 digits; in order of their names, so that two renewals can't deadlock.
CREATE PROCEDURE IF NOT EXISTS holdfast_v1_renew(tickets LONGBLOB)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment, ttl_us, holder_fence, holder_expires BIGINT;
    DECLARE at, size INT DEFAULT 1;
    DECLARE was_abandoned, is_crowded, missing BOOLEAN;
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

        SET missing = FALSE, standing = NULL, holder_id = NULL;
        SELECT abandoned, crowded, id, fence, expires
          INTO was_abandoned, is_crowded, holder_id, holder_fence, holder_expires
          FROM holdfast_names WHERE name = its_name FOR UPDATE;
        SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
        IF holder_id = its_id AND holder_expires > moment THEN
            UPDATE holdfast_names SET expires = GREATEST(expires, moment + ttl_us)
             WHERE name = its_name;
            SET standing = CONCAT('2 ', holder_fence, ' ', was_abandoned, ' 0');
        ELSEIF holder_id IS NOT NULL THEN
            IF is_crowded THEN
                CALL holdfast_v1_look(its_name, its_id, ttl_us, NULL, NULL, moment,
                    holder_id, holder_fence, holder_expires, bells, standing);
            END IF;
            IF standing IS NULL AND holder_expires <= moment THEN
                CALL holdfast_v1_pass_on(
                    its_name, TRUE, moment, '', holder_id, holder_fence, holder_expires, bells);
            END IF;
        END IF;
        SET standings = CONCAT(standings, COALESCE(standing, '0 0 0 0'), '\n');
    END WHILE;
    COMMIT;
    CALL holdfast_v1_ring(bells);
    SELECT standings;
END
//
