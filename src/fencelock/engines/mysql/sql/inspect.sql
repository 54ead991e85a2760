-- The holders and waiters of a name. Answers with lines: first "NEWEST ABANDONED HOLDERS WAITING", then for each
-- holder and each of the first waiters "FENCE SINCE_US EXPIRES_US WEIGHT PERMITS<tab>GROUP<tab>OWNER". No ids.
--   most   how many waiters to list
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_inspect(its_name VARBINARY(512), most INT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment, its_newest, last_fence, holder_expires, behind, listed BIGINT;
    DECLARE was_abandoned BOOLEAN DEFAULT FALSE;
    DECLARE together INT DEFAULT 0;
    DECLARE holder_id VARBINARY(64);
    DECLARE bells LONGBLOB DEFAULT '';
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET its_newest = 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    SELECT id, expires INTO holder_id, holder_expires
      FROM fencelock_names WHERE name = its_name FOR UPDATE;
    SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    IF holder_expires <= moment OR holder_id = '' THEN
        CALL fencelock_v2_settle(its_name, moment, '', bells);
    END IF;
    SELECT newest, abandoned, id, fence,
           CASE WHEN id = '' THEN sharers WHEN id IS NOT NULL THEN 1 ELSE 0 END
      INTO its_newest, was_abandoned, holder_id, last_fence, together
      FROM fencelock_names WHERE name = its_name;
    SELECT COUNT(*) INTO behind FROM fencelock_tickets
     WHERE name = its_name AND fence > last_fence AND expires > moment;
    SELECT CONCAT_WS(' ', its_newest, was_abandoned, together, behind);
    IF holder_id <> '' THEN
        SELECT CONCAT(CONCAT_WS(' ', fence, moment - admitted, expires - moment, 1, 1), '\t\t', owner)
          FROM fencelock_names WHERE name = its_name;
    END IF;
    SET listed = most + IF(holder_id = '', together, 0);
    SELECT CONCAT(CONCAT_WS(' ', fence, moment - COALESCE(admitted, joined), expires - moment,
                            weight, permits), '\t', team, '\t', owner)
      FROM fencelock_tickets WHERE name = its_name AND expires > moment ORDER BY fence LIMIT listed;
    COMMIT;
    CALL fencelock_v2_ring(bells);
END
//
-- The names that are held or waited for, one row each.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_names()
READS SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    SELECT name FROM fencelock_names n
     WHERE id IS NOT NULL AND (id <> '' AND expires > moment OR EXISTS (
           SELECT 1 FROM fencelock_tickets t WHERE t.name = n.name AND t.expires > moment));
END
//
-- Take out all holders of a name. An exclusive holder counts as lost. Answers 1, or 0 if there was none.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_evict(its_name VARBINARY(512))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment, last_fence, holder_expires BIGINT;
    DECLARE was_there BOOLEAN DEFAULT FALSE;
    DECLARE holder_id VARBINARY(64);
    DECLARE bells LONGBLOB DEFAULT '';
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    SELECT id, fence, expires INTO holder_id, last_fence, holder_expires
      FROM fencelock_names WHERE name = its_name FOR UPDATE;
    SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    IF holder_expires <= moment OR holder_id = '' THEN
        -- A waiter that this call admits is evicted, too, and must not be told that it was admitted.
        CALL fencelock_v2_settle(its_name, moment, NULL, bells);
        SELECT id, fence INTO holder_id, last_fence FROM fencelock_names WHERE name = its_name;
    END IF;
    IF holder_id IS NOT NULL THEN
        SET was_there = TRUE;
        DELETE FROM fencelock_tickets WHERE name = its_name AND fence <= last_fence;
        UPDATE fencelock_names SET id = NULL, abandoned = abandoned OR holder_id <> ''
         WHERE name = its_name;
        CALL fencelock_v2_admit(its_name, moment, '', bells);
    END IF;
    COMMIT;
    CALL fencelock_v2_ring(bells);
    SELECT was_there;
END
//
