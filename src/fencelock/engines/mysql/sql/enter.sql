-- Join the queue of a name, or renew a ticket that is already in it. Answers with a standing (see queue.sql).
--   its_name, its_id   the ticket
--   ttl_us             how long it lives unless renewed
--   its_channel        where its client listens
--   its_owner          host, pid and label, for people
--   if_free            join only if admitted at once
--   lowest             the lowest fence that a new ticket may get
--   its_team           the group it may share with; '' if it holds alone
--   its_weight, its_permits   see core/admission.py

-- The general case.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_join(
    its_name VARBINARY(512), its_id VARBINARY(64), ttl_us BIGINT, its_channel VARBINARY(64),
    its_owner VARBINARY(8000), if_free BOOLEAN, lowest BIGINT,
    its_team VARBINARY(64), its_weight BIGINT, its_permits BIGINT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment, its_fence, its_newest, last_fence, holder_expires, in_use, room BIGINT;
    DECLARE lives_us BIGINT DEFAULT ttl_us;  -- once admitted
    DECLARE was_abandoned, is_queued, is_free, missing BOOLEAN DEFAULT FALSE;
    DECLARE holder_id, holder_team VARBINARY(64);
    DECLARE bells LONGBLOB DEFAULT '';
    DECLARE standing VARBINARY(80);
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    IF its_team LIKE 'rate %' THEN
        SET lives_us = CAST(SUBSTRING(its_team, 6) AS UNSIGNED);
    END IF;
    START TRANSACTION;
    SELECT newest, abandoned, queued, id, fence, expires, team, used
      INTO its_newest, was_abandoned, is_queued, holder_id, last_fence, holder_expires, holder_team,
           in_use
      FROM fencelock_names WHERE name = its_name FOR UPDATE;
    IF missing THEN
        INSERT INTO fencelock_names (name, newest) SELECT its_name, floor FROM fencelock_about
            ON DUPLICATE KEY UPDATE newest = fencelock_names.newest;  -- another client was faster
    END IF;
    SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    IF holder_expires <= moment OR holder_id = '' THEN
        CALL fencelock_v2_settle(its_name, moment, its_id, bells);
    END IF;
    IF missing OR holder_expires <= moment OR holder_id = '' THEN
        SET missing = FALSE;
        SELECT newest, abandoned, queued, id, fence, expires, team, used
          INTO its_newest, was_abandoned, is_queued, holder_id, last_fence, holder_expires, holder_team,
               in_use
          FROM fencelock_names WHERE name = its_name FOR UPDATE;
        IF missing THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the row of fencelock_about is not there';
        END IF;
    END IF;

    IF holder_id = its_id THEN
        UPDATE fencelock_names SET expires = GREATEST(expires, moment + ttl_us), owner = its_owner
         WHERE name = its_name;
        SET standing = CONCAT('2 ', last_fence, ' ', was_abandoned, ' 0');
        IF its_team <> '' THEN
            -- It held alone, and shares the name from now on.
            INSERT INTO fencelock_tickets
            SELECT name, fence, id, owner, admitted, expires, its_channel, admitted,
                   its_team, its_weight, its_permits
              FROM fencelock_names WHERE name = its_name;
            UPDATE fencelock_names SET id = NULL WHERE name = its_name;
            CALL fencelock_v2_beside(its_name, last_fence, GREATEST(holder_expires, moment + ttl_us),
                its_team, its_weight);
            CALL fencelock_v2_admit(its_name, moment, its_id, bells);
        END IF;
    ELSEIF is_queued THEN
        CALL fencelock_v2_look(its_name, its_id, ttl_us, its_channel, its_owner, moment,
            was_abandoned, holder_id, last_fence, holder_expires, standing);
    END IF;

    IF standing IS NULL THEN
        SET is_free = holder_id IS NULL
             OR its_team <> '' AND holder_id = '' AND its_team = holder_team
            AND in_use + its_weight <= its_permits
            AND NOT EXISTS (
                SELECT 1 FROM fencelock_tickets WHERE name = its_name AND fence > last_fence);
        -- The clock keeps fences growing even if the last fence was lost.
        SET its_fence = GREATEST(its_newest + 1, moment, lowest);
        IF is_free AND its_team = '' THEN
            UPDATE fencelock_names
               SET newest = its_fence, fence = its_fence, queued = FALSE,
                   id = its_id, owner = its_owner, admitted = moment, expires = moment + ttl_us
             WHERE name = its_name;
        ELSEIF is_free OR NOT if_free THEN
            INSERT INTO fencelock_tickets
            VALUES (its_name, its_fence, its_id, its_owner, moment, moment + IF(is_free, lives_us, ttl_us),
                    its_channel, IF(is_free, moment, NULL), its_team, its_weight, its_permits);
        END IF;
        IF is_free AND its_team <> '' THEN
            CALL fencelock_v2_beside(its_name, its_fence, moment + lives_us, its_team, its_weight);
        ELSEIF NOT is_free AND NOT if_free THEN
            UPDATE fencelock_names SET newest = its_fence, queued = TRUE WHERE name = its_name;
        END IF;
        IF is_free THEN
            SET standing = CONCAT('2 ', its_fence, ' ', was_abandoned, ' 0');
        ELSEIF if_free THEN
            SET standing = '3 0 0 0';
            IF its_team LIKE 'rate %' THEN
                CALL fencelock_v2_room(its_name, its_team, its_weight, its_permits, room);
                SET standing = CONCAT('3 0 0 ', GREATEST(room - moment, 0));
            END IF;
        ELSE
            CALL fencelock_v2_waiting(
                its_name, its_fence, holder_id, last_fence, holder_expires, moment, standing);
        END IF;
    END IF;
    COMMIT;
    IF bells <> '' THEN
        CALL fencelock_v2_ring(bells);
    END IF;
    SELECT standing;
    IF is_free AND its_fence % 64 = 0 THEN
        CALL fencelock_v2_sweep(moment);
    END IF;
END
//
-- The fast path for a ticket that holds alone: one statement if the name is free, as in most cases. It is a
-- transaction of its own. MySQL computes the values from left to right, after the row was locked: a call that
-- had to wait for the row lock still gives a whole lease. Not NOW(): that stands still while a statement runs.
-- LAST_INSERT_ID() brings the computed values out of the UPDATE. Arguments: as in fencelock_v2_join.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_enter(
    its_name VARBINARY(512), its_id VARBINARY(64), ttl_us BIGINT, its_channel VARBINARY(64),
    its_owner VARBINARY(8000), if_free BOOLEAN
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    UPDATE fencelock_names
       SET admitted = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)),
           newest = GREATEST(newest + 1, admitted), fence = newest, expires = admitted + ttl_us,
           queued = 0 * LAST_INSERT_ID(2 * newest + abandoned), id = its_id, owner = its_owner
     WHERE name = its_name AND id IS NULL;
    IF ROW_COUNT() = 1 THEN
        SELECT CONCAT('2 ', LAST_INSERT_ID() DIV 2, ' ', LAST_INSERT_ID() % 2, ' 0');
        IF LAST_INSERT_ID() DIV 2 % 64 = 0 THEN
            CALL fencelock_v2_sweep(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)));
        END IF;
    ELSE
        CALL fencelock_v2_join(its_name, its_id, ttl_us, its_channel, its_owner, if_free, 1, '', 1, 1);
    END IF;
END
//
