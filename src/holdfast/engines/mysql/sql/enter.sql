-- Join the queue, or look again and renew if already in it. Answers with a standing.
-- if_free: join only if admitted at once.
CREATE PROCEDURE IF NOT EXISTS holdfast_v1_enter(
    its_name VARBINARY(512), its_id VARBINARY(64), ttl_us BIGINT, its_channel VARBINARY(64),
    its_owner VARBINARY(1200), if_free BOOLEAN
)
MODIFIES SQL DATA SQL SECURITY INVOKER
enter: BEGIN
    DECLARE moment, its_fence, its_newest, holder_fence, holder_expires BIGINT;
    DECLARE was_abandoned, is_crowded, missing BOOLEAN DEFAULT FALSE;
    DECLARE holder_id VARBINARY(64);
    DECLARE bells LONGBLOB DEFAULT '';
    DECLARE standing VARBINARY(80);
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    -- Nobody holds it, as in most cases: one statement, which is a transaction of its own. The values are
    -- computed from left to right, after the row was locked: whoever had to wait for that has its whole
    -- lease left. The clock keeps fences growing when the last one was lost. Not NOW(): that stands still
    -- for as long as a statement runs. LAST_INSERT_ID() remembers what was computed.
    UPDATE holdfast_names
       SET admitted = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)),
           newest = GREATEST(newest + 1, admitted), fence = newest, expires = admitted + ttl_us,
           crowded = 0 * LAST_INSERT_ID(2 * newest + abandoned), id = its_id, owner = its_owner
     WHERE name = its_name AND id IS NULL;
    IF ROW_COUNT() = 1 THEN
        SELECT CONCAT('2 ', LAST_INSERT_ID() DIV 2, ' ', LAST_INSERT_ID() % 2, ' 0');
        IF LAST_INSERT_ID() DIV 2 % 64 = 0 THEN
            CALL holdfast_v1_sweep(LAST_INSERT_ID() DIV 2);
        END IF;
        LEAVE enter;
    END IF;

    START TRANSACTION;
    SELECT newest, abandoned, crowded, id, fence, expires
      INTO its_newest, was_abandoned, is_crowded, holder_id, holder_fence, holder_expires
      FROM holdfast_names WHERE name = its_name FOR UPDATE;
    IF missing THEN
        INSERT INTO holdfast_names (name, newest) SELECT its_name, floor FROM holdfast_about
            ON DUPLICATE KEY UPDATE newest = holdfast_names.newest;  -- somebody was quicker
        SET missing = FALSE;
        SELECT newest, abandoned, crowded, id, fence, expires
          INTO its_newest, was_abandoned, is_crowded, holder_id, holder_fence, holder_expires
          FROM holdfast_names WHERE name = its_name FOR UPDATE;
        IF missing THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the row of holdfast_about is not there';
        END IF;
    END IF;
    SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));

    IF holder_id = its_id AND holder_expires > moment THEN
        UPDATE holdfast_names SET expires = GREATEST(expires, moment + ttl_us), owner = its_owner
         WHERE name = its_name;
        SET standing = CONCAT('2 ', holder_fence, ' ', was_abandoned, ' 0');
    ELSEIF is_crowded THEN
        CALL holdfast_v1_look(its_name, its_id, ttl_us, its_channel, its_owner, moment,
            holder_id, holder_fence, holder_expires, bells, standing);
    END IF;
    IF standing IS NULL AND holder_expires <= moment THEN
        CALL holdfast_v1_pass_on(
            its_name, TRUE, moment, its_id, holder_id, holder_fence, holder_expires, bells);
        SET was_abandoned = TRUE;
    END IF;

    IF standing IS NULL AND holder_id IS NOT NULL AND if_free THEN
        SET standing = '3 0 0 0';
    ELSEIF standing IS NULL THEN
        SET its_fence = GREATEST(its_newest + 1, moment);
        IF holder_id IS NULL THEN
            UPDATE holdfast_names
               SET newest = its_fence, fence = its_fence, crowded = FALSE,
                   id = its_id, owner = its_owner, admitted = moment, expires = moment + ttl_us
             WHERE name = its_name;
            SET standing = CONCAT('2 ', its_fence, ' ', was_abandoned, ' 0');
        ELSE
            UPDATE holdfast_names SET newest = its_fence, crowded = TRUE WHERE name = its_name;
            INSERT INTO holdfast_waiters (name, fence, id, owner, joined, expires, channel)
            VALUES (its_name, its_fence, its_id, its_owner, moment, moment + ttl_us, its_channel);
            CALL holdfast_v1_waiting(its_name, its_fence, holder_expires, moment, standing);
        END IF;
    END IF;
    COMMIT;
    IF bells <> '' THEN
        CALL holdfast_v1_ring(bells);
    END IF;
    SELECT standing;
END
//
