-- +goose Up
-- Deliveries of events to targets (impl/core/delivery). A fan-out reads the events in the
-- order of their commits and makes a delivery for each target; workers take a target's
-- queue, whole, for a while, and send what is due of it.

-- How far the fan-out is. There is one row; who holds its lock is the fan-out.
CREATE TABLE delivery_cursor (
    instance_id text COLLATE "C" NOT NULL CHECK (instance_id = ''), -- the system
    -- The last event that was seen, in commit order (ReadEvents).
    xid         xid8 NOT NULL,
    sequence    bigint NOT NULL,
    -- Of the last delivery.
    position    bigint NOT NULL,
    -- Whether there was an execution on events, in any instance.
    is_heard    boolean NOT NULL,
    -- Raised when the fan-out sees that executions changed: what a node remembers of them
    -- is good for one version.
    version     bigint NOT NULL,
    CONSTRAINT delivery_cursor_pkey PRIMARY KEY (instance_id)
);
-- It begins at the present, not at the beginning of history.
INSERT INTO delivery_cursor VALUES ('', pg_snapshot_xmin(pg_current_snapshot()), 0, 0, EXISTS (SELECT FROM executions WHERE condition_type = 'event'), 0);

-- The queue of a target, which one worker has at a time: so the order of its deliveries
-- needs no locks, what one endpoint may cost is bounded over all nodes, and a delivery is
-- written twice, when it is made and when it ends. All that changes the state of
-- deliveries locks the rows of their queues first, by instance and target.
CREATE TABLE delivery_queues (
    instance_id text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    target      text COLLATE "C" NOT NULL, -- may be gone
    due_at      timestamptz, -- when a worker has to look at it; NULL: when something comes
    version     bigint NOT NULL, -- raised by who puts something into it
    failures    integer NOT NULL, -- attempts in a row: the circuit
    -- Who has it, and until when, by the clock of the database, on which all agree.
    leased_by   text COLLATE "C",
    lease_end   timestamptz,
    CONSTRAINT delivery_queues_pkey PRIMARY KEY (instance_id, target)
);
CREATE INDEX delivery_queues_due ON delivery_queues (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX delivery_queues_leased ON delivery_queues (leased_by) WHERE leased_by IS NOT NULL;

CREATE TABLE deliveries (
    instance_id    text COLLATE "C" NOT NULL,
    id             text COLLATE "C" NOT NULL, -- the webhook-id
    target         text COLLATE "C" NOT NULL, -- may be gone, as the execution
    execution      text COLLATE "C" NOT NULL,
    delivered_type text COLLATE "C" NOT NULL,
    delivered_sequence bigint NOT NULL,
    object_type    text COLLATE "C" NOT NULL,
    object_id      text COLLATE "C" NOT NULL,
    -- The order of all deliveries, in which a target gets those of one object.
    position       bigint NOT NULL,
    state          smallint NOT NULL CHECK (state BETWEEN 1 AND 4), -- pending, delivered, failed, dead
    dead_reason    smallint NOT NULL CHECK (dead_reason BETWEEN 0 AND 4),
    attempts       integer NOT NULL, -- since it was queued, or replayed
    all_attempts   integer NOT NULL,
    queued_date    timestamptz NOT NULL, -- or replayed
    -- NULL when it ended, or waits for an older one of its object: of those that a target
    -- has still to get of one object the oldest has one.
    next_attempt   timestamptz,
    body           text COLLATE "C" NOT NULL,
    sequence       bigint NOT NULL,
    creation_date  timestamptz NOT NULL,
    change_date    timestamptz NOT NULL,
    CONSTRAINT deliveries_pkey PRIMARY KEY (instance_id, id)
);
-- What a worker takes, and what it finds behind what ended.
CREATE INDEX deliveries_ready ON deliveries (instance_id, target, next_attempt, position) WHERE next_attempt IS NOT NULL;
CREATE INDEX deliveries_lanes ON deliveries (instance_id, target, object_type, object_id, position) WHERE state IN (1, 3);
-- What people search by.
CREATE INDEX deliveries_by_creation_date ON deliveries (instance_id, creation_date, id);
CREATE INDEX deliveries_by_target ON deliveries (instance_id, target, creation_date, id);
CREATE INDEX deliveries_by_object ON deliveries (instance_id, object_id, creation_date, id);
CREATE INDEX deliveries_in_trouble ON deliveries (instance_id, state, creation_date, id) WHERE state IN (3, 4);
CREATE TRIGGER deliveries_counted AFTER INSERT ON deliveries
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER deliveries_uncounted AFTER DELETE ON deliveries
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();

-- What came of each attempt: apart, so that a search does not read answers, and a further
-- attempt does not write those before again.
CREATE TABLE delivery_attempts (
    instance_id text COLLATE "C" NOT NULL,
    delivery    text COLLATE "C" NOT NULL,
    number      integer NOT NULL,
    date        timestamptz NOT NULL,
    took_nanos  bigint NOT NULL,
    status      integer NOT NULL, -- 0: no answer
    answer      text COLLATE "C" NOT NULL,
    error       text COLLATE "C" NOT NULL,
    headers     jsonb NOT NULL, -- as sent, without the signature
    CONSTRAINT delivery_attempts_pkey PRIMARY KEY (instance_id, delivery, number)
);

-- Deliveries go along with their instance. No foreign key: it would lock the instance
-- with each delivery. Their queues have one, and go first, after a fan-out that holds them.
-- +goose StatementBegin
CREATE FUNCTION deliveries_of_gone_instances() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM deliveries WHERE instance_id = OLD.id;
    DELETE FROM delivery_attempts WHERE instance_id = OLD.id;
    RETURN NULL;
END
$$;

-- A worker finds that the target is gone, and ends what is in its queue.
CREATE FUNCTION deliveries_of_gone_targets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE delivery_queues q SET due_at = '-infinity', version = q.version + 1
    FROM gone_rows g WHERE q.instance_id = g.instance_id AND q.target = g.id;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER deliveries_of_gone_instances AFTER DELETE ON instances
    FOR EACH ROW EXECUTE FUNCTION deliveries_of_gone_instances();
CREATE TRIGGER deliveries_of_gone_targets AFTER DELETE ON targets
    REFERENCING OLD TABLE AS gone_rows FOR EACH STATEMENT EXECUTE FUNCTION deliveries_of_gone_targets();
