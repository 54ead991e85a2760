-- Delete some notes that have expired. Skips locked rows: to wait for them while it holds locks itself could
-- deadlock.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_forget(moment BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE its_name VARBINARY(512);
    DECLARE done BOOLEAN DEFAULT FALSE;
    DECLARE expired CURSOR FOR
        SELECT name FROM fencelock_notes WHERE expires <= moment
         ORDER BY expires LIMIT 256 FOR UPDATE SKIP LOCKED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE;
    OPEN expired;
    FETCH expired INTO its_name;
    WHILE NOT done DO
        DELETE FROM fencelock_notes WHERE name = its_name;
        FETCH expired INTO its_name;
    END WHILE;
    CLOSE expired;
END
//
-- Store a note for a name, if the ticket holds the name, alone or with others. Answers 1, or 0 if it does not.
--   its_name, its_id   the ticket
--   its_note           the text
--   keep_us            how long to keep it
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_remember(
    its_name VARBINARY(512), its_id VARBINARY(64), its_note MEDIUMBLOB, keep_us BIGINT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment, holder_expires BIGINT;
    DECLARE holder_id VARBINARY(64);
    DECLARE holds BOOLEAN;
    DECLARE bells LONGBLOB DEFAULT '';
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    SELECT id, expires INTO holder_id, holder_expires
      FROM fencelock_names WHERE name = its_name FOR UPDATE;
    SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    IF holder_expires <= moment OR holder_id = '' THEN
        CALL fencelock_v2_settle(its_name, moment, '', bells);
        SELECT id INTO holder_id FROM fencelock_names WHERE name = its_name;
    END IF;
    SET holds = COALESCE(holder_id = its_id, FALSE) OR EXISTS (
        SELECT 1 FROM fencelock_tickets
         WHERE name = its_name AND id = its_id AND admitted IS NOT NULL);
    IF holds THEN
        INSERT INTO fencelock_notes (name, note, expires) VALUES (its_name, its_note, moment + keep_us)
            ON DUPLICATE KEY UPDATE note = its_note, expires = moment + keep_us;
        -- Each call adds at most one note and deletes up to 256, so the table can't grow without end.
        CALL fencelock_v2_forget(moment);
    END IF;
    COMMIT;
    IF bells <> '' THEN
        CALL fencelock_v2_ring(bells);
    END IF;
    SELECT holds;
END
//
-- The note of a name. No row if there is none, or if it has expired.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_recall(its_name VARBINARY(512))
READS SQL DATA SQL SECURITY INVOKER
SELECT note FROM fencelock_notes
 WHERE name = its_name AND expires > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))
//
