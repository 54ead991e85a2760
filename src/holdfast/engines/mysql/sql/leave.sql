-- Take out this very ticket, and wake whom this admits. Answers 1, or 0: it was not there (any more).
-- departure: 0 released, 1 lost, 2 withdrawn (how the holder before it ended still counts)
CREATE PROCEDURE IF NOT EXISTS holdfast_v1_leave(
    its_name VARBINARY(512), its_id VARBINARY(64), departure INT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
take_out: BEGIN
    DECLARE moment, its_fence, its_expires, holder_fence, holder_expires BIGINT;
    DECLARE was_abandoned, is_crowded, missing, was_there BOOLEAN DEFAULT FALSE;
    DECLARE holder_id, behind_id, behind_channel VARBINARY(64);
    DECLARE bells LONGBLOB DEFAULT '';
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    -- Nobody waits, as in most cases.
    UPDATE holdfast_names
       SET abandoned = CASE departure WHEN 0 THEN FALSE WHEN 1 THEN TRUE ELSE abandoned END,
           id = NULL, fence = NULL, owner = NULL, admitted = NULL, expires = NULL
     WHERE name = its_name AND id = its_id AND NOT crowded
       AND expires > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    IF ROW_COUNT() = 1 THEN
        SELECT 1;
        LEAVE take_out;
    END IF;

    START TRANSACTION;
    SELECT abandoned, crowded, id, fence, expires
      INTO was_abandoned, is_crowded, holder_id, holder_fence, holder_expires
      FROM holdfast_names WHERE name = its_name FOR UPDATE;
    SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));

    IF holder_expires <= moment THEN
        -- One that leaves from further behind may be the first to notice that the holder has expired;
        -- if it is admitted by this, it is not told.
        CALL holdfast_v1_pass_on(its_name, TRUE, moment, IF(holder_id = its_id, '', its_id),
            holder_id, holder_fence, holder_expires, bells);
        SET was_abandoned = TRUE;
    END IF;

    IF holder_id = its_id THEN
        SET was_there = TRUE;
        SET was_abandoned = CASE departure WHEN 0 THEN FALSE WHEN 1 THEN TRUE ELSE was_abandoned END;
        CALL holdfast_v1_pass_on(its_name, was_abandoned, moment, '',
            holder_id, holder_fence, holder_expires, bells);
    ELSEIF is_crowded THEN
        SET missing = FALSE;
        SELECT fence, expires INTO its_fence, its_expires FROM holdfast_waiters
         WHERE name = its_name AND id = its_id;
        IF NOT missing THEN
            SET was_there = its_expires > moment;
            DELETE FROM holdfast_waiters WHERE name = its_name AND fence = its_fence;
            -- The one behind now stands behind someone else: it should look again when that one expires.
            SELECT id, channel INTO behind_id, behind_channel FROM holdfast_waiters
             WHERE name = its_name AND fence > its_fence ORDER BY fence LIMIT 1;
            IF NOT missing THEN
                UPDATE holdfast_names SET nudged = behind_id WHERE name = its_name;
                SET bells = CONCAT(bells, behind_channel, ',');
            END IF;
        END IF;
    END IF;
    COMMIT;
    IF bells <> '' THEN
        CALL holdfast_v1_ring(bells);
    END IF;
    SELECT was_there;
END
//
