-- What the other procedures share. A standing is a text, "PLACE FENCE ABANDONED RECHECK_US", with
-- 0 gone, 1 waiting, 2 admitted, 3 refused. `bells` are the channels to ring after the commit, with commas.

-- Wake the clients that listen on these channels. Each holds a GET_LOCK named after its channel while its
-- connection lives, which tells the connection, and sleeps in a statement that may be ended at any time.
-- Another user's statement can't be: that client then looks again by itself.
CREATE PROCEDURE IF NOT EXISTS holdfast_v1_ring(bells LONGBLOB)
NO SQL SQL SECURITY INVOKER
BEGIN
    DECLARE listener BIGINT UNSIGNED;
    DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
    WHILE bells <> '' DO
        SET listener = IS_USED_LOCK(CONCAT('holdfast.', SUBSTRING_INDEX(bells, ',', 1)));
        IF listener IS NOT NULL THEN
            KILL QUERY listener;
        END IF;
        SET bells = SUBSTRING(bells, LENGTH(SUBSTRING_INDEX(bells, ',', 1)) + 2);
    END WHILE;
END
//
-- The holder is gone: make the first living ticket the holder, and have it told unless it is the one that
-- asks (NULL: tell nobody). The dead ones in between never held the lock, so they don't count as
-- abandoned. The name's row is locked.
CREATE PROCEDURE IF NOT EXISTS holdfast_v1_pass_on(
    its_name VARBINARY(512), flag BOOLEAN, moment BIGINT, asking VARBINARY(64),
    OUT holder_id VARBINARY(64), OUT holder_fence BIGINT, OUT holder_expires BIGINT,
    INOUT bells LONGBLOB
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE first_id, first_channel VARBINARY(64);
    DECLARE first_owner VARBINARY(1200);
    DECLARE first_fence, first_expires BIGINT;
    DECLARE missing BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    REPEAT
        SELECT fence, id, owner, expires, channel
          INTO first_fence, first_id, first_owner, first_expires, first_channel
          FROM holdfast_waiters WHERE name = its_name ORDER BY fence LIMIT 1;
        IF NOT missing THEN
            DELETE FROM holdfast_waiters WHERE name = its_name AND fence = first_fence;
        END IF;
    UNTIL missing OR first_expires > moment END REPEAT;

    IF missing THEN
        UPDATE holdfast_names
           SET abandoned = flag, crowded = FALSE, nudged = NULL,
               id = NULL, fence = NULL, owner = NULL, admitted = NULL, expires = NULL
         WHERE name = its_name;
    ELSE
        -- crowded stays: to look whether anybody else waits would cost more than to find nobody next time.
        UPDATE holdfast_names
           SET abandoned = flag, crowded = TRUE,
               id = first_id, fence = first_fence, owner = first_owner, admitted = moment,
               expires = first_expires
         WHERE name = its_name;
        SET holder_id = first_id, holder_fence = first_fence, holder_expires = first_expires;
        IF first_id <> asking THEN
            SET bells = CONCAT(bells, first_channel, ',');
        END IF;
    END IF;
END
//
-- The standing of a living ticket that waits behind a living holder.
CREATE PROCEDURE IF NOT EXISTS holdfast_v1_waiting(
    its_name VARBINARY(512), its_fence BIGINT, holder_expires BIGINT, moment BIGINT,
    OUT standing VARBINARY(80)
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE ahead_fence, ahead_expires BIGINT;
    DECLARE missing BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    REPEAT
        SELECT fence, expires INTO ahead_fence, ahead_expires FROM holdfast_waiters
         WHERE name = its_name AND fence < its_fence ORDER BY fence DESC LIMIT 1;
        IF missing THEN
            SET ahead_expires = holder_expires;
        ELSEIF ahead_expires <= moment THEN
            DELETE FROM holdfast_waiters WHERE name = its_name AND fence = ahead_fence;
        END IF;
    UNTIL missing OR ahead_expires > moment END REPEAT;
    SET standing = CONCAT('1 ', its_fence, ' 0 ', ahead_expires - moment);
END
//
-- Extend a ticket that waits, if it is there and lives, and say where it stands; NULL if not.
-- The name's row is locked, and what it says of the holder is given, and given back if that changes.
CREATE PROCEDURE IF NOT EXISTS holdfast_v1_look(
    its_name VARBINARY(512), its_id VARBINARY(64), ttl_us BIGINT,
    its_channel VARBINARY(64), its_owner VARBINARY(1200), moment BIGINT,
    INOUT holder_id VARBINARY(64), INOUT holder_fence BIGINT, INOUT holder_expires BIGINT,
    INOUT bells LONGBLOB, OUT standing VARBINARY(80)
)
MODIFIES SQL DATA SQL SECURITY INVOKER
look: BEGIN
    DECLARE its_fence, its_expires BIGINT;
    DECLARE missing BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    SELECT fence, expires INTO its_fence, its_expires FROM holdfast_waiters
     WHERE name = its_name AND id = its_id;
    IF missing THEN
        LEAVE look;
    END IF;
    IF its_expires <= moment THEN
        DELETE FROM holdfast_waiters WHERE name = its_name AND fence = its_fence;
        LEAVE look;
    END IF;
    -- Never sooner than promised before: this may be a late request with a shorter ttl.
    UPDATE holdfast_waiters
       SET expires = GREATEST(expires, moment + ttl_us), channel = COALESCE(its_channel, channel),
           owner = COALESCE(its_owner, owner)
     WHERE name = its_name AND fence = its_fence;
    IF holder_expires <= moment THEN
        CALL holdfast_v1_pass_on(
            its_name, TRUE, moment, its_id, holder_id, holder_fence, holder_expires, bells);
        IF holder_id = its_id THEN
            SET standing = CONCAT('2 ', holder_fence, ' 1 0');
            LEAVE look;
        END IF;
    END IF;
    CALL holdfast_v1_waiting(its_name, its_fence, holder_expires, moment, standing);
END
//
