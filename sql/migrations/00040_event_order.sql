-- +goose Up
-- The order of events, tenant by tenant (REL-108): a transaction that runs long holds back
-- what follows it in its own instance, and nobody else.
--
-- Readers go by (xid, sequence). Until now xid was the transaction's, and they stopped below the
-- oldest that ran on the whole server. Now
--
--   * who appends an event holds a shared lock, named by the instance and the
--     transaction, until it ends, and takes it before
--   * xid becomes the next transaction to come, if that is beyond its own.
--
-- A reader takes note of the next transaction to come, then of the locks, and then reads below
-- the least of them (event_bounds). Nothing it passed can appear later: of an event below the
-- first number the lock was held before that number was read; either it still is, and bounds
-- the reader, or its transaction is over, and what it committed is there to be read.
-- A lock is given back after its transaction is seen to be over, never before.
--
-- xid is never less than the transaction's own, so a node of the release before, which stops
-- below the oldest running transaction, misses nothing either.

-- +goose StatementBegin
CREATE FUNCTION order_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    own xid8 := pg_current_xact_id();
BEGIN
    IF NEW.xid <> own THEN -- events of an instance that moves here keep the number that the mover gave them
        RETURN NEW;
    END IF;
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN -- their snapshot is older than the lock
        RAISE EXCEPTION 'events are appended in transactions of READ COMMITTED';
    END IF;
    IF NOT pg_try_advisory_xact_lock_shared(hashtext(NEW.instance_id), ((own::text::bigint & 4294967295) - 2147483648)::int) THEN
        RAISE EXCEPTION 'somebody holds the lock of who appends events to %', NEW.instance_id;
    END IF;
    NEW.xid := greatest(own, pg_snapshot_xmax(pg_current_snapshot())); -- of a snapshot that is taken now
    RETURN NEW;
END
$$;

-- event_bounds returns below which number no event can appear any more: of everybody
-- (instance_key is null), and of the instances that are being written to. The statement that
-- reads has to follow it.
CREATE FUNCTION event_bounds() RETURNS TABLE (instance_key bigint, below xid8) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    coming xid8 := pg_snapshot_xmax(pg_current_snapshot());
    n bigint := coming::text::bigint;
BEGIN
    RETURN QUERY SELECT NULL::bigint, coming;
    RETURN QUERY SELECT w.classid::bigint, (n + ((min(w.objid::bigint - n & 4294967295)) - 2147483648))::text::xid8
        FROM pg_locks w
        WHERE w.locktype = 'advisory' AND w.objsubid = 2 AND w.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        GROUP BY w.classid;
END
$$;

-- event_key is how event_bounds names an instance. Two that share a key wait for one another.
CREATE FUNCTION event_key(p_instance_id text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT hashtext(p_instance_id)::bigint & 4294967295 $$;

-- events_settled is the bound of one instance.
CREATE FUNCTION events_settled(p_instance_id text) RETURNS xid8 LANGUAGE sql VOLATILE AS $$
    SELECT b.below FROM event_bounds() b WHERE b.instance_key IS NULL OR b.instance_key = event_key(p_instance_id) ORDER BY b.below LIMIT 1
$$;
-- +goose StatementEnd

CREATE TRIGGER events_ordered BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION order_event();

-- The fan-out of deliveries has one place for all instances, beyond which nobody's events were
-- seen but those of instances that went ahead: while somebody's transaction runs long, or
-- somebody has very many events, the others do not wait. Of an instance that hears events
-- there is a row then. A node of the release before, which does not know of it, sends some
-- of these again and loses none.
ALTER TABLE delivery_cursor ADD COLUMN is_ahead boolean NOT NULL DEFAULT false;
CREATE TABLE delivery_ahead (
    instance_id text COLLATE "C" NOT NULL,
    xid         xid8 NOT NULL,
    sequence    bigint NOT NULL,
    CONSTRAINT delivery_ahead_pkey PRIMARY KEY (instance_id)
);
