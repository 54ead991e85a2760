-- Take a ticket out of its queue, and wake the clients of the tickets that this admits. Answers 1, or 0 if the
-- ticket was not there (any more).
--   its_name, its_id   the ticket
--   departure          0 released, 1 lost, 2 withdrawn (then the end of the holder before it still counts)

-- The general case: the ticket shares the name, or waits, or holds alone while others wait.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_take_out(
    its_name VARBINARY(512), its_id VARBINARY(64), departure INT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment, its_fence, its_expires, its_weight, last_fence, holder_expires BIGINT;
    DECLARE behind_admitted BIGINT;
    DECLARE is_queued, missing, was_there BOOLEAN DEFAULT FALSE;
    DECLARE holder_id, behind_id, behind_channel VARBINARY(64);
    DECLARE bells LONGBLOB DEFAULT '';
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    SELECT queued, id, fence, expires INTO is_queued, holder_id, last_fence, holder_expires
      FROM fencelock_names WHERE name = its_name FOR UPDATE;
    SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    IF holder_expires <= moment THEN
        -- A waiter that leaves may be the first to notice that a holder has expired. If this admits the
        -- leaver itself, its client is not woken.
        CALL fencelock_v2_settle(its_name, moment, its_id, bells);
        SELECT queued, id, fence INTO is_queued, holder_id, last_fence
          FROM fencelock_names WHERE name = its_name;
    END IF;

    IF holder_id = its_id THEN
        SET was_there = TRUE;
        UPDATE fencelock_names
           SET abandoned = CASE departure WHEN 0 THEN FALSE WHEN 1 THEN TRUE ELSE abandoned END, id = NULL
         WHERE name = its_name;
        CALL fencelock_v2_admit(its_name, moment, '', bells);
    ELSEIF is_queued THEN
        SET missing = FALSE;
        SELECT fence, expires, weight INTO its_fence, its_expires, its_weight FROM fencelock_tickets
         WHERE name = its_name AND id = its_id;
        IF NOT missing THEN
            SET was_there = its_expires > moment;
            DELETE FROM fencelock_tickets WHERE name = its_name AND fence = its_fence;
            IF its_fence <= last_fence THEN
                UPDATE fencelock_names
                   SET sharers = sharers - 1, used = used - its_weight, id = IF(sharers, '', NULL)
                 WHERE name = its_name;
            END IF;
            CALL fencelock_v2_admit(its_name, moment, '', bells);
        END IF;
        IF its_fence > last_fence THEN
            -- Another ticket is ahead of the next waiter now: it should look again when that one expires.
            SELECT id, channel, admitted INTO behind_id, behind_channel, behind_admitted
              FROM fencelock_tickets WHERE name = its_name AND fence > its_fence ORDER BY fence LIMIT 1;
            IF NOT missing AND behind_admitted IS NULL THEN
                UPDATE fencelock_names SET nudged = behind_id WHERE name = its_name;
                SET bells = CONCAT(bells, behind_channel, ',');
            END IF;
        END IF;
    END IF;
    COMMIT;
    IF bells <> '' THEN
        CALL fencelock_v2_ring(bells);
    END IF;
    SELECT was_there;
END
//
-- The fast path: one statement if the ticket holds alone and no ticket waits, as in most cases. Then the answer
-- is empty, which means yes: a SELECT would take half as long as all the rest. Arguments: as in
-- fencelock_v2_take_out.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_leave(
    its_name VARBINARY(512), its_id VARBINARY(64), departure INT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    UPDATE fencelock_names
       SET abandoned = CASE departure WHEN 0 THEN FALSE WHEN 1 THEN TRUE ELSE abandoned END,
           id = NULL, fence = NULL, owner = NULL, admitted = NULL, expires = NULL
     WHERE name = its_name AND id = its_id AND NOT queued
       AND expires > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    IF ROW_COUNT() = 0 THEN
        CALL fencelock_v2_take_out(its_name, its_id, departure);
    END IF;
END
//
