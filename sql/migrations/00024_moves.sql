-- +goose Up
-- Moving an instance to another database (impl/core/cell).

-- The instances that live elsewhere now. What is left of them here serves nobody.
CREATE TABLE moved_instances (
    instance_id text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    moved_to    text COLLATE "C" NOT NULL, -- for people
    date        timestamptz NOT NULL,
    CONSTRAINT moved_instances_pkey PRIMARY KEY (instance_id)
);

-- frozen is the trigger that a move puts on each table for the rows of its instance. Its
-- arguments are the instance and a lock. While the mover holds the lock nothing of the
-- instance is written here; when the mover dies, the lock goes with its connection, and all
-- is as before. Whoever writes holds the lock too, shared, until the end of the transaction:
-- so the mover gets it when all that was written is there to be read.
--
-- What a worker takes of all tenants at once, deliveries and messages, it does not get;
-- everything else is refused. What has moved may be swept a while later.
-- +goose StatementBegin
CREATE FUNCTION frozen() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moved timestamptz;
BEGIN
    SELECT m.date INTO moved FROM moved_instances m WHERE m.instance_id = TG_ARGV[0];
    IF current_setting('writ.moving', true) = TG_ARGV[0]
        OR moved IS NULL AND pg_try_advisory_xact_lock_shared(hashtextextended(TG_ARGV[1], 0))
        OR TG_OP = 'DELETE' AND moved < now() - interval '1 minute'
    THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    END IF;
    IF TG_OP = 'UPDATE' AND TG_TABLE_NAME IN ('deliveries', 'delivery_queues', 'messages') THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the instance % is being moved to another database', TG_ARGV[0] USING ERRCODE = '57W01';
END
$$;
-- +goose StatementEnd
