-- Who holds and who waits. Answers with lines: first "NEWEST ABANDONED HOLDERS WAITING", then of the holder
-- and of the first waiters "FENCE SINCE_US EXPIRES_US OWNER", without their ids.
CREATE PROCEDURE IF NOT EXISTS holdfast_v1_inspect(its_name VARBINARY(512), most INT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment, its_newest, holder_fence, holder_expires, behind BIGINT;
    DECLARE was_abandoned BOOLEAN DEFAULT FALSE;
    DECLARE holder_id VARBINARY(64);
    DECLARE bells LONGBLOB DEFAULT '';
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET its_newest = 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    SELECT newest, abandoned, id, fence, expires
      INTO its_newest, was_abandoned, holder_id, holder_fence, holder_expires
      FROM holdfast_names WHERE name = its_name FOR UPDATE;
    SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    IF holder_expires <= moment THEN
        CALL holdfast_v1_pass_on(
            its_name, TRUE, moment, '', holder_id, holder_fence, holder_expires, bells);
        SET was_abandoned = TRUE;
    END IF;
    SELECT COUNT(*) INTO behind FROM holdfast_waiters WHERE name = its_name AND expires > moment;
    SELECT CONCAT_WS(' ', its_newest, was_abandoned, holder_id IS NOT NULL, behind);
    IF holder_id IS NOT NULL THEN
        SELECT CONCAT_WS(' ', fence, moment - admitted, expires - moment, owner)
          FROM holdfast_names WHERE name = its_name;
    END IF;
    SELECT CONCAT_WS(' ', fence, moment - joined, expires - moment, owner)
      FROM holdfast_waiters WHERE name = its_name AND expires > moment ORDER BY fence LIMIT most;
    COMMIT;
    CALL holdfast_v1_ring(bells);
END
//
-- The names that are held or waited for.
CREATE PROCEDURE IF NOT EXISTS holdfast_v1_names()
READS SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    SELECT name FROM holdfast_names n
     WHERE id IS NOT NULL AND (expires > moment OR EXISTS (
           SELECT 1 FROM holdfast_waiters w WHERE w.name = n.name AND w.expires > moment));
END
//
-- Take out the holder, whoever it is, and pass the lock on as abandoned. Answers 1, or 0: there was none.
CREATE PROCEDURE IF NOT EXISTS holdfast_v1_evict(its_name VARBINARY(512))
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE moment, holder_fence, holder_expires BIGINT;
    DECLARE was_there BOOLEAN DEFAULT FALSE;
    DECLARE holder_id VARBINARY(64);
    DECLARE bells LONGBLOB DEFAULT '';
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    SELECT id, fence, expires INTO holder_id, holder_fence, holder_expires
      FROM holdfast_names WHERE name = its_name FOR UPDATE;
    SET moment = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6));
    IF holder_expires <= moment THEN
        -- One that is admitted on the way here is evicted too, and must not hear otherwise.
        CALL holdfast_v1_pass_on(
            its_name, TRUE, moment, NULL, holder_id, holder_fence, holder_expires, bells);
    END IF;
    IF holder_id IS NOT NULL THEN
        SET was_there = TRUE;
        CALL holdfast_v1_pass_on(
            its_name, TRUE, moment, '', holder_id, holder_fence, holder_expires, bells);
    END IF;
    COMMIT;
    CALL holdfast_v1_ring(bells);
    SELECT was_there;
END
//
