-- Extend many tickets, holding or waiting. Never brings a ticket back. Returns their standings, in order.
--   its_names, its_ids, ttls_us   one item for each ticket
CREATE OR REPLACE FUNCTION fencelock.v2_renew(
    its_names text[], its_ids text[], ttls_us bigint[]
) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    it       fencelock.names;
    before   fencelock.names;
    now      bigint;
    standing text;
BEGIN
    -- Lock all rows first. All calls use the same order, so that two renewals can't deadlock.
    PERFORM 1 FROM fencelock.names n WHERE n.name = ANY (its_names) ORDER BY n.name FOR UPDATE;
    now := fencelock.v2_now();
    FOR i IN 1 .. array_length(its_ids, 1) LOOP
        standing := NULL;
        SELECT * INTO it FROM fencelock.names n WHERE n.name = its_names[i];
        IF it.id = its_ids[i] AND it.expires > now THEN
            UPDATE fencelock.names n SET expires = greatest(n.expires, now + ttls_us[i])
             WHERE n.name = it.name;
            standing := concat_ws(' ', 2, it.fence, it.abandoned::int, 0);
        ELSIF it.id IS NOT NULL THEN
            before := it;
            it := fencelock.v2_settle(it, now, its_ids[i]);
            IF it.id = its_ids[i] THEN
                it.expires := greatest(it.expires, now + ttls_us[i]);
                standing := concat_ws(' ', 2, it.fence, it.abandoned::int, 0);
            ELSIF it.queued THEN
                standing := fencelock.v2_look(it, its_ids[i], ttls_us[i], NULL, NULL, now);
            END IF;
            IF it IS DISTINCT FROM before THEN
                PERFORM fencelock.v2_store(it);
            END IF;
        END IF;
        RETURN NEXT coalesce(standing, '0 0 0 0');
    END LOOP;
END $$;
