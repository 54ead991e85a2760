-- Delete some names that have not been used for long: an hour after a release, a day after a holder that did
-- not release. One in 64 grants calls this, and it looks through 256 names. Each grant adds at most one name,
-- so the tables can't grow without end. Skips locked rows: a later sweep finds them.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_sweep(moment BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
sweep: BEGIN
    DECLARE an_hour BIGINT DEFAULT 3600000000;
    DECLARE a_day BIGINT DEFAULT 86400000000;
    DECLARE top, its_newest, seen BIGINT;
    DECLARE from_name, last_name, its_name VARBINARY(512);
    DECLARE done BOOLEAN DEFAULT FALSE;
    DECLARE idle CURSOR FOR
        SELECT name, newest FROM fencelock_names
         WHERE name > from_name AND name <= last_name
           AND CASE WHEN id IS NULL AND NOT abandoned
                    -- or the clock was set back since its last use
                    THEN newest < moment - an_hour OR newest > moment + an_hour
                    ELSE newest < moment - a_day AND COALESCE(expires, 0) < moment - a_day
               END
           AND NOT EXISTS (SELECT 1 FROM fencelock_tickets t
                            WHERE t.name = fencelock_names.name AND t.expires > moment)
           FOR UPDATE SKIP LOCKED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK;

    START TRANSACTION;
    SELECT floor, swept INTO top, from_name FROM fencelock_about FOR UPDATE SKIP LOCKED;
    IF done THEN
        ROLLBACK;
        LEAVE sweep;
    END IF;
    SELECT MAX(name), COUNT(*) INTO last_name, seen FROM (
        SELECT name FROM fencelock_names WHERE name > from_name ORDER BY name LIMIT 256) batch;
    OPEN idle;
    FETCH idle INTO its_name, its_newest;
    WHILE NOT done DO
        DELETE FROM fencelock_tickets WHERE name = its_name;
        DELETE FROM fencelock_names WHERE name = its_name;
        SET top = GREATEST(top, its_newest);
        FETCH idle INTO its_name, its_newest;
    END WHILE;
    CLOSE idle;
    -- A name that comes back starts above the fences of all deleted names.
    UPDATE fencelock_about SET floor = top, swept = IF(seen = 256, last_name, '');
    COMMIT;
END
//
