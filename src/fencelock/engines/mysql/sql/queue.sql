-- What the other procedures share.
-- A standing is a text, "PLACE FENCE ABANDONED RECHECK_US". PLACE is 0 gone, 1 waiting, 2 admitted, 3 refused.
-- The name's row is locked. A procedure changes the row itself, and its caller reads the row again.
-- Arguments that come again and again:
--   its_name   the name
--   moment     the server's clock, in µs, read after the name's row was locked
--   asking     the id of the ticket that this request is about: it reads its standing in the answer, so its client
--              is not woken for it. '' if there is none. NULL: wake no client
--   bells      the channels of the clients to wake after the commit, each with a comma behind it

-- Wake the clients that listen on these channels. The listener of a client holds a GET_LOCK that is named after
-- its channel, which tells its connection. It sleeps in a statement that may be ended at any time. KILL QUERY
-- does not work on the statement of another user: that client looks again by itself.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_ring(bells LONGBLOB)
NO SQL SQL SECURITY INVOKER
BEGIN
    DECLARE listener BIGINT UNSIGNED;
    DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
    WHILE bells <> '' DO
        SET listener = IS_USED_LOCK(CONCAT('fencelock.', SUBSTRING_INDEX(bells, ',', 1)));
        IF listener IS NOT NULL THEN
            KILL QUERY listener;
        END IF;
        SET bells = SUBSTRING(bells, LENGTH(SUBSTRING_INDEX(bells, ',', 1)) + 2);
    END WHILE;
END
//
-- When enough holders have expired for one more ticket of a rate; at least one of them has to. The holders of
-- a rate expire in the order of their fences, so this reads no more of them than the ticket wants permits.
--   its_team, its_weight, its_permits   of that ticket
--   room                                the result
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_room(
    its_name VARBINARY(512), its_team VARBINARY(64), its_weight BIGINT, its_permits BIGINT, OUT room BIGINT
)
READS SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE holder_id, holder_team VARBINARY(64);
    DECLARE at_fence, last_fence, in_use, one_weight BIGINT DEFAULT 0;
    DECLARE missing BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    SELECT id, fence, team, used, expires INTO holder_id, last_fence, holder_team, in_use, room
      FROM fencelock_names WHERE name = its_name;
    IF holder_id = '' AND holder_team = its_team THEN
        REPEAT
            SELECT fence, weight, expires INTO at_fence, one_weight, room FROM fencelock_tickets
             WHERE name = its_name AND fence > at_fence AND fence <= last_fence ORDER BY fence LIMIT 1;
            SET in_use = in_use - one_weight;
        UNTIL missing OR in_use + its_weight <= its_permits END REPEAT;
    END IF;
END
//
-- Admit the first waiter if it fits beside the holders, then the next, until one does not fit. Add their clients'
-- channels to the bells. Expired waiters in between never held the lock, so the name does not count as abandoned.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_admit(
    its_name VARBINARY(512), moment BIGINT, asking VARBINARY(64), INOUT bells LONGBLOB
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE holder_id, first_id, holder_team, first_team, first_channel VARBINARY(64);
    DECLARE first_owner VARBINARY(8000);
    DECLARE last_fence, first_fence, first_expires, in_use, its_weight, its_permits, lasts BIGINT;
    DECLARE missing, changed BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    SELECT id, fence, team, used INTO holder_id, last_fence, holder_team, in_use
      FROM fencelock_names WHERE name = its_name;
    admit: WHILE COALESCE(holder_id, '') = '' DO
        SELECT fence, id, owner, expires, channel, team, weight, permits
          INTO first_fence, first_id, first_owner, first_expires, first_channel, first_team,
               its_weight, its_permits
          FROM fencelock_tickets WHERE name = its_name AND fence > COALESCE(last_fence, 0)
         ORDER BY fence LIMIT 1;
        IF missing THEN
            IF holder_id IS NULL THEN
                UPDATE fencelock_names
                   SET queued = FALSE, nudged = NULL,
                       fence = NULL, owner = NULL, admitted = NULL, expires = NULL
                 WHERE name = its_name;
            END IF;
            LEAVE admit;
        END IF;
        IF first_expires <= moment THEN
            DELETE FROM fencelock_tickets WHERE name = its_name AND fence = first_fence;
            SET changed = TRUE;
            ITERATE admit;
        END IF;
        SET lasts = IF(first_team LIKE 'rate %', CAST(SUBSTRING(first_team, 6) AS UNSIGNED), 0);
        IF holder_id = ''
           AND (first_team = '' OR first_team <> holder_team OR in_use + its_weight > its_permits) THEN
            IF changed AND lasts AND first_id <> asking THEN
                -- No release will admit it: it must know when to look.
                UPDATE fencelock_names SET nudged = first_id WHERE name = its_name;
                IF NOT FIND_IN_SET(first_channel, bells) THEN
                    SET bells = CONCAT(bells, first_channel, ',');
                END IF;
            END IF;
            LEAVE admit;
        END IF;
        SET changed = TRUE;
        IF first_team = '' THEN
            DELETE FROM fencelock_tickets WHERE name = its_name AND fence = first_fence;
            -- queued stays true: to check now whether others wait costs more than to find none next time.
            UPDATE fencelock_names
               SET queued = TRUE, id = first_id, fence = first_fence, owner = first_owner,
                   admitted = moment, expires = first_expires
             WHERE name = its_name;
            SET holder_id = first_id;
        ELSE
            SET first_expires = IF(lasts, moment + lasts, first_expires);
            UPDATE fencelock_tickets SET admitted = moment, expires = first_expires
             WHERE name = its_name AND fence = first_fence;
            CALL fencelock_v2_beside(its_name, first_fence, first_expires, first_team, its_weight);
            SET in_use = IF(holder_id IS NULL, 0, in_use) + its_weight;
            SET holder_id = '', holder_team = first_team, last_fence = first_fence;
        END IF;
        IF first_id <> asking AND NOT FIND_IN_SET(first_channel, bells) THEN
            SET bells = CONCAT(bells, first_channel, ',');
        END IF;
    END WHILE;
END
//
-- Count one more holder that shares the name.
--   its_fence, its_expires, its_team, its_weight   of that holder
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_beside(
    its_name VARBINARY(512), its_fence BIGINT, its_expires BIGINT, its_team VARBINARY(64),
    its_weight BIGINT
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    -- MySQL assigns from left to right: the id must come last.
    UPDATE fencelock_names
       SET used = IF(id IS NULL, 0, used) + its_weight, sharers = IF(id IS NULL, 0, sharers) + 1,
           expires = IF(id IS NULL, its_expires, LEAST(expires, its_expires)),
           team = its_team, fence = its_fence, newest = GREATEST(newest, its_fence),
           owner = NULL, admitted = NULL, queued = TRUE, id = ''
     WHERE name = its_name;
END
//
-- Take out the holders that have expired, and admit the waiters that fit.
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_settle(
    its_name VARBINARY(512), moment BIGINT, asking VARBINARY(64), INOUT bells LONGBLOB
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE holder_id, holder_team VARBINARY(64);
    DECLARE last_fence, holder_expires, in_use, together, first_fence BIGINT;
    SELECT id, fence, expires, team INTO holder_id, last_fence, holder_expires, holder_team
      FROM fencelock_names WHERE name = its_name;
    IF holder_expires <= moment AND holder_id <> '' THEN
        UPDATE fencelock_names SET id = NULL, abandoned = TRUE WHERE name = its_name;
    ELSEIF holder_expires <= moment AND holder_team LIKE 'rate %' THEN
        -- A rate: the first holders expire first, so only the expired ones are read, and one more.
        SELECT MIN(fence) INTO first_fence FROM (
            SELECT fence FROM fencelock_tickets
             WHERE name = its_name AND fence <= last_fence AND expires > moment ORDER BY fence LIMIT 1) alive;
        SELECT COUNT(*), COALESCE(SUM(weight), 0) INTO together, in_use FROM fencelock_tickets
         WHERE name = its_name AND fence <= last_fence AND fence < COALESCE(first_fence, last_fence + 1);
        DELETE FROM fencelock_tickets
         WHERE name = its_name AND fence <= last_fence AND fence < COALESCE(first_fence, last_fence + 1);
        UPDATE fencelock_names
           SET sharers = sharers - together, used = used - in_use, id = IF(first_fence, '', NULL),
               expires = (SELECT expires FROM fencelock_tickets WHERE name = its_name AND fence = first_fence)
         WHERE name = its_name;
    ELSEIF holder_expires <= moment THEN
        DELETE FROM fencelock_tickets
         WHERE name = its_name AND fence <= last_fence AND expires <= moment;
        SELECT COUNT(*), COALESCE(SUM(weight), 0), MIN(expires) INTO together, in_use, holder_expires
          FROM fencelock_tickets WHERE name = its_name AND fence <= last_fence;
        UPDATE fencelock_names
           SET sharers = together, used = in_use, expires = holder_expires, id = IF(together, '', NULL)
         WHERE name = its_name;
    END IF;
    CALL fencelock_v2_admit(its_name, moment, asking, bells);
END
//
-- The standing of a waiting ticket that lives. The queue must be settled (fencelock_v2_settle). Deletes expired
-- waiters ahead of it.
--   its_fence                               of the ticket
--   holder_id, last_fence, holder_expires   the columns id, fence and expires of the name's row
--   standing                                the result
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_waiting(
    its_name VARBINARY(512), its_fence BIGINT, holder_id VARBINARY(64), last_fence BIGINT,
    holder_expires BIGINT, moment BIGINT, OUT standing VARBINARY(80)
)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
    DECLARE ahead_fence, ahead_expires, its_weight, its_permits BIGINT;
    DECLARE its_team VARBINARY(64);
    DECLARE missing BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    REPEAT
        SELECT fence, expires INTO ahead_fence, ahead_expires FROM fencelock_tickets
         WHERE name = its_name AND fence < its_fence AND fence > last_fence
         ORDER BY fence DESC LIMIT 1;
        IF missing AND holder_id = '' THEN
            SELECT team, weight, permits INTO its_team, its_weight, its_permits FROM fencelock_tickets
             WHERE name = its_name AND fence = its_fence;
        END IF;
        IF missing AND holder_id = '' AND its_team LIKE 'rate %' THEN
            CALL fencelock_v2_room(its_name, its_team, its_weight, its_permits, ahead_expires);
        ELSEIF missing AND holder_id = '' THEN
            SELECT MIN(expires) INTO ahead_expires FROM fencelock_tickets
             WHERE name = its_name AND fence <= last_fence;
        ELSEIF missing THEN
            SET ahead_expires = holder_expires;
        ELSEIF ahead_expires <= moment THEN
            DELETE FROM fencelock_tickets WHERE name = its_name AND fence = ahead_fence;
        END IF;
    UNTIL missing OR ahead_expires > moment END REPEAT;
    SET standing = CONCAT('1 ', its_fence, ' 0 ', GREATEST(COALESCE(ahead_expires, 0) - moment, 0));
END
//
-- Extend a ticket that shares the name or waits. The queue must be settled (fencelock_v2_settle).
--   its_id                   the ticket
--   ttl_us                   how long it lives from now on
--   its_channel, its_owner   its new ones; NULL keeps the old ones
--   was_abandoned, holder_id, last_fence, holder_expires
--                            the columns abandoned, id, fence and expires of the name's row
--   standing                 the result; NULL if the ticket is not there or has expired
CREATE PROCEDURE IF NOT EXISTS fencelock_v2_look(
    its_name VARBINARY(512), its_id VARBINARY(64), ttl_us BIGINT,
    its_channel VARBINARY(64), its_owner VARBINARY(8000), moment BIGINT,
    was_abandoned BOOLEAN, holder_id VARBINARY(64), last_fence BIGINT, holder_expires BIGINT,
    OUT standing VARBINARY(80)
)
MODIFIES SQL DATA SQL SECURITY INVOKER
look: BEGIN
    DECLARE its_fence, its_expires BIGINT;
    DECLARE missing BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = TRUE;
    SELECT fence, expires INTO its_fence, its_expires FROM fencelock_tickets
     WHERE name = its_name AND id = its_id;
    IF missing THEN
        LEAVE look;
    END IF;
    IF its_expires <= moment THEN
        DELETE FROM fencelock_tickets WHERE name = its_name AND fence = its_fence;
        LEAVE look;
    END IF;
    -- Never earlier than promised before: this may be a late request with a shorter ttl. The permit of a rate
    -- ends when it ends.
    UPDATE fencelock_tickets
       SET expires = IF(admitted IS NOT NULL AND team LIKE 'rate %', expires,
                        GREATEST(expires, moment + ttl_us)), channel = COALESCE(its_channel, channel),
           owner = COALESCE(its_owner, owner)
     WHERE name = its_name AND fence = its_fence;
    IF its_fence <= last_fence THEN
        SET standing = CONCAT('2 ', its_fence, ' ', was_abandoned, ' 0');
    ELSE
        CALL fencelock_v2_waiting(
            its_name, its_fence, holder_id, last_fence, holder_expires, moment, standing);
    END IF;
END
//
