-- name: LockDeliveryCursor :one
-- Who holds it is the fan-out. What is to be read goes into statements of their own: this
-- one may have waited for the lock, and sees what there was before.
SELECT c.xid, c.sequence, c.position, c.is_heard, c.version, c.is_ahead FROM delivery_cursor c WHERE c.instance_id = '' FOR UPDATE;

-- name: SkipEvents :one
-- While nobody hears events, they are passed over up to the first one of an execution,
-- from which on somebody may. An idle system writes nothing. No row: there is nothing new.
-- An execution may be beyond what can be passed: then its instance goes ahead.
WITH first AS (
    SELECT e.xid, e.sequence FROM events e, delivery_cursor c
    WHERE (e.xid, e.sequence) > (c.xid, c.sequence) AND e.xid < @below::xid8 AND e.aggregate_type = 'execution'
    ORDER BY e.xid, e.sequence LIMIT 1
)
UPDATE delivery_cursor c SET
    xid = coalesce((SELECT f.xid FROM first f), greatest(c.xid, @below::xid8)), sequence = CASE WHEN EXISTS (SELECT FROM first) THEN (SELECT f.sequence - 1 FROM first f) WHEN c.xid < @below::xid8 THEN 0 ELSE c.sequence END,
    is_ahead = EXISTS (SELECT FROM executions x WHERE x.condition_type = 'event'),
    is_heard = EXISTS (SELECT FROM first) OR EXISTS (SELECT FROM executions x WHERE x.condition_type = 'event'), version = c.version + 1
WHERE c.instance_id = '' AND (
    EXISTS (SELECT FROM events e WHERE (e.xid, e.sequence) > (c.xid, c.sequence) AND e.xid < @below::xid8)
    OR EXISTS (SELECT FROM executions x WHERE x.condition_type = 'event'))
RETURNING c.is_heard;

-- name: RestartDeliveryCursor :exec
WITH ahead AS (DELETE FROM delivery_ahead a)
UPDATE delivery_cursor SET xid = @below::xid8, sequence = 0, is_ahead = false, version = version + 1 WHERE instance_id = '';

-- name: MoveDeliveryCursor :exec
UPDATE delivery_cursor SET xid = @xid, sequence = @sequence, position = @position, is_heard = @is_heard, version = @version, is_ahead = @is_ahead WHERE instance_id = '';

-- name: WhyThereAreNoEvents :one
-- Whether there are events that a running transaction keeps from being read; whether some
-- wait for a further transaction (PassTransaction); and whether there never will be some. Transactions are numbered by the server: when the database was
-- restored into another one, where the cursor stands is no place.
SELECT EXISTS (SELECT FROM events e WHERE (e.xid, e.sequence) > (@xid::xid8, @sequence::bigint))::bool AS are_held,
    EXISTS (SELECT FROM events e WHERE (e.xid, e.sequence) > (@xid::xid8, @sequence::bigint) AND e.xid >= @coming::xid8)::bool AS are_coming,
    (@xid::xid8 > pg_snapshot_xmax(pg_current_snapshot()))::bool AS is_foreign;

-- name: InstancesAhead :many
-- How far each of some instances is ahead of the cursor.
SELECT a.instance_id, a.xid, a.sequence FROM delivery_ahead a WHERE a.instance_id = ANY (@instance_ids::text[]);

-- name: GoAhead :exec
-- Makes the rows of instances that hear events. Whoever begins to while others are ahead does
-- so with the execution.
INSERT INTO delivery_ahead (instance_id, xid, sequence)
SELECT h.instance_id, coalesce(first.xid, @xid::xid8), coalesce(first.sequence - 1, @sequence::bigint)
FROM (SELECT DISTINCT x.instance_id FROM executions x WHERE x.condition_type = 'event') h
LEFT JOIN LATERAL (
    SELECT e.xid, e.sequence FROM events e
    WHERE @is_ahead::bool AND e.instance_id = h.instance_id AND (e.xid, e.sequence) > (@xid::xid8, @sequence::bigint) AND e.aggregate_type = 'execution'
    ORDER BY e.xid, e.sequence LIMIT 1) first ON true
ON CONFLICT ON CONSTRAINT delivery_ahead_pkey DO NOTHING;

-- name: ReadEventsAhead :many
-- The next events of each instance that hears some, a share of each, those first that wait
-- longest.
SELECT n.* FROM delivery_ahead a CROSS JOIN LATERAL (
    SELECT e.* FROM events e
    WHERE e.instance_id = a.instance_id AND (e.xid, e.sequence) > (a.xid, a.sequence) AND (e.xid, e.sequence) > (@xid::xid8, @sequence::bigint)
        AND e.xid < coalesce((SELECT w.below::xid8 FROM (SELECT unnest(@instance_keys::bigint[]) AS instance_key, unnest(@belows::text[]) AS below) w
            WHERE w.instance_key = event_key(a.instance_id) AND w.below::xid8 < @below::xid8), @below::xid8)
    ORDER BY e.xid, e.sequence LIMIT @share::int) n
ORDER BY n.xid, n.sequence LIMIT @page_limit::int;

-- name: MoveAhead :exec
UPDATE delivery_ahead a SET xid = n.xid::xid8, sequence = n.sequence
FROM (SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@xids::text[]) AS xid, unnest(@sequences::bigint[]) AS sequence) n
WHERE a.instance_id = n.instance_id;

-- name: EndAhead :one
-- Whether the cursor has caught up with all that were ahead; then they are not any more.
WITH caught AS (SELECT NOT EXISTS (SELECT FROM delivery_ahead a WHERE (a.xid, a.sequence) > (@xid::xid8, @sequence::bigint)) AS up),
    ended AS (DELETE FROM delivery_ahead a USING caught c WHERE c.up)
SELECT c.up::bool FROM caught c;

-- name: HearingInstances :many
SELECT DISTINCT instance_id FROM executions WHERE condition_type = 'event';

-- name: AddToDeliveryQueues :exec
-- Without delivery_queues: leased_by, lease_end: nobody works on one that is new.
-- In their order, as everybody locks them.
INSERT INTO delivery_queues AS q (instance_id, target, due_at, version, failures)
SELECT n.instance_id, n.target, @now::timestamptz, 1, 0
FROM (SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@targets::text[]) AS target) n
ORDER BY 1, 2
ON CONFLICT ON CONSTRAINT delivery_queues_pkey DO UPDATE SET version = q.version + 1, due_at = least(q.due_at, excluded.due_at);

-- name: QueueDeliveries :exec
-- Those that are the first of their object in the batch are due, unless the target has
-- still to get an older one, or another target one before it.
INSERT INTO deliveries (instance_id, id, target, execution, delivered_type, delivered_sequence, object_type, object_id, position, body, traceparent, next_attempt,
    follows, is_held, is_followed, state, dead_reason, attempts, all_attempts, queued_date, sequence, creation_date, change_date)
SELECT n.instance_id, n.id, n.target, n.execution, n.delivered_type, n.delivered_sequence, n.object_type, n.object_id, n.position, n.body, n.traceparent,
    CASE WHEN n.is_first AND n.follows = '' AND NOT EXISTS (
        SELECT FROM deliveries d WHERE d.instance_id = n.instance_id AND d.target = n.target AND d.object_type = n.object_type AND d.object_id = n.object_id AND d.state IN (1 /* DELIVERY_STATE_PENDING */, 3 /* DELIVERY_STATE_FAILED */)
    ) THEN @now::timestamptz END,
    nullif(n.follows, ''), n.follows <> '', n.is_followed, 1 /* DELIVERY_STATE_PENDING */, 0 /* DEAD_REASON_UNSPECIFIED */, 0, 0, @now::timestamptz, n.delivered_sequence, @now::timestamptz, @now::timestamptz
FROM (SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@ids::text[]) AS id, unnest(@targets::text[]) AS target, unnest(@executions::text[]) AS execution,
    unnest(@types::text[]) AS delivered_type, unnest(@sequences::bigint[]) AS delivered_sequence, unnest(@object_types::text[]) AS object_type,
    unnest(@object_ids::text[]) AS object_id, unnest(@positions::bigint[]) AS position, unnest(@bodies::text[]) AS body, unnest(@traceparents::text[]) AS traceparent, unnest(@are_first::bool[]) AS is_first,
    unnest(@follows::text[]) AS follows, unnest(@are_followed::bool[]) AS is_followed) n;

-- name: NotifyDeliveries :exec
SELECT pg_notify('writ_changed', 'deliveries');

-- name: LeaseDeliveryQueues :many
-- Takes the queues of targets that are due, those first that were first, but of no
-- instance that has its share of the node already.
UPDATE delivery_queues q SET leased_by = concat_ws('/', @lease::text, q.instance_id, q.target), lease_end = clock_timestamp() + make_interval(secs => @seconds::float8)
WHERE (q.instance_id, q.target) IN (
    SELECT d.instance_id, d.target FROM delivery_queues d
    WHERE d.due_at <= @now::timestamptz AND (d.lease_end IS NULL OR d.lease_end < clock_timestamp()) AND d.instance_id <> ALL (@full_instances::text[])
    ORDER BY d.due_at FOR UPDATE SKIP LOCKED LIMIT @page_limit::int)
RETURNING q.instance_id, q.target, q.version, q.failures, q.leased_by;

-- name: RenewDeliveryLeases :many
-- What it does not return belongs to others by now.
UPDATE delivery_queues q SET lease_end = clock_timestamp() + make_interval(secs => @seconds::float8)
WHERE q.leased_by = ANY (@leases::text[])
RETURNING q.leased_by;

-- name: HeldDeliveryQueues :many
SELECT q.instance_id, q.target, q.leased_by, q.version FROM delivery_queues q WHERE q.leased_by = ANY (@leases::text[]);

-- name: HeldDeliveryQueue :one
SELECT q.version FROM delivery_queues q WHERE q.instance_id = @instance_id AND q.target = @target AND q.leased_by = @lease::text;

-- name: ReadyDeliveries :many
SELECT d.id, d.object_type, d.object_id, d.attempts, d.all_attempts, d.queued_date, d.body, d.traceparent, d.is_followed FROM deliveries d
WHERE d.instance_id = @instance_id AND d.target = @target AND d.next_attempt <= @now::timestamptz AND d.id <> ALL (@flying::text[])
ORDER BY d.next_attempt, d.position LIMIT @page_limit::int;

-- name: LockDeliveryQueues :many
-- Locks queues in the order in which everybody locks them.
SELECT q.instance_id, q.target, coalesce(q.leased_by, '')::text AS leased_by FROM delivery_queues q
WHERE (q.instance_id, q.target) IN (SELECT unnest(@instance_ids::text[]), unnest(@targets::text[]))
ORDER BY q.instance_id, q.target FOR NO KEY UPDATE;

-- name: AddDeliveryAttempts :exec
-- Without delivery_attempts: provider: which messages alone have.
INSERT INTO delivery_attempts (instance_id, delivery, number, date, took_nanos, status, answer, error, headers)
SELECT unnest(@instance_ids::text[]), unnest(@deliveries::text[]), unnest(@numbers::int[]), unnest(@dates::timestamptz[]), unnest(@tooks::bigint[]),
    unnest(@statuses::int[]), unnest(@answers::text[]), unnest(@errors::text[]), unnest(@headers::text[])::jsonb
ON CONFLICT DO NOTHING;

-- name: EndAttempts :exec
-- The states are named so that no partial index seems to serve: while the table is empty
-- that plan looks as good as the one by key, and it is kept.
UPDATE deliveries d SET state = n.state, dead_reason = n.dead_reason, attempts = d.attempts + n.attempts, all_attempts = d.all_attempts + n.attempts,
    next_attempt = CASE WHEN n.state = 3 /* DELIVERY_STATE_FAILED */ AND NOT d.is_held THEN n.next_attempt END, is_held = d.is_held AND n.state = 3 /* DELIVERY_STATE_FAILED */, change_date = @now::timestamptz
FROM (SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@ids::text[]) AS id, unnest(@states::smallint[]) AS state, unnest(@dead_reasons::smallint[]) AS dead_reason,
    unnest(@attempts::int[]) AS attempts, unnest(@next_attempts::timestamptz[]) AS next_attempt) n
WHERE d.instance_id = n.instance_id AND d.id = n.id AND d.state <> 2 /* DELIVERY_STATE_DELIVERED */ AND d.state <> 4 /* DELIVERY_STATE_DEAD */;

-- name: FreeLanes :many
-- Of which objects the targets have nothing still to get but what is held.
SELECT l.nr::int AS nr FROM (SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@targets::text[]) AS target, unnest(@object_types::text[]) AS object_type,
    unnest(@object_ids::text[]) AS object_id, unnest(@nrs::int[]) AS nr) l
WHERE NOT EXISTS (SELECT FROM deliveries d
    WHERE d.instance_id = l.instance_id AND d.target = l.target AND d.object_type = l.object_type AND d.object_id = l.object_id AND d.state IN (1 /* DELIVERY_STATE_PENDING */, 3 /* DELIVERY_STATE_FAILED */) AND NOT d.is_held);

-- name: ReleaseLanes :exec
-- Makes the oldest due that is to be got of each object.
UPDATE deliveries d SET next_attempt = @now::timestamptz
FROM (SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@targets::text[]) AS target, unnest(@object_types::text[]) AS object_type, unnest(@object_ids::text[]) AS object_id) l
    CROSS JOIN LATERAL (
        SELECT o.instance_id, o.id, o.next_attempt, o.is_held FROM deliveries o
        WHERE o.instance_id = l.instance_id AND o.target = l.target AND o.object_type = l.object_type AND o.object_id = l.object_id AND o.state IN (1 /* DELIVERY_STATE_PENDING */, 3 /* DELIVERY_STATE_FAILED */)
        ORDER BY o.position LIMIT 1) next
WHERE next.next_attempt IS NULL AND NOT next.is_held AND d.instance_id = next.instance_id AND d.id = next.id;

-- name: FollowingQueues :many
-- The queues of all that follow some deliveries, and of what follows these, whatever
-- became of it: whoever ends a delivery that is followed locks them too.
WITH RECURSIVE later AS (
    SELECT d.instance_id, d.id, d.target, d.is_followed FROM (SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@ids::text[]) AS id) n
        JOIN deliveries d ON d.instance_id = n.instance_id AND d.follows = n.id
    UNION ALL
    SELECT d.instance_id, d.id, d.target, d.is_followed FROM later l JOIN deliveries d ON d.instance_id = l.instance_id AND d.follows = l.id WHERE l.is_followed
)
SELECT DISTINCT l.instance_id::text AS instance_id, l.target::text AS target FROM later l;

-- name: EndFollowing :many
-- Lets go what follows deliveries that reached their targets, or are forgotten, and gives up
-- what follows those that were given up, with all that follows it. Their queues are locked. What was replayed
-- while a call of it was under way may have ended meanwhile, and stays as it is.
WITH RECURSIVE ended AS (
    SELECT d.instance_id, d.id, d.is_followed, h.came_to FROM (
            SELECT n.instance_id, n.id, coalesce((SELECT o.state FROM deliveries o WHERE o.instance_id = n.instance_id AND o.id = n.id), 2 /* DELIVERY_STATE_DELIVERED */) AS came_to
            FROM (SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@ids::text[]) AS id) n) h
        JOIN deliveries d ON d.instance_id = h.instance_id AND d.follows = h.id AND d.is_held AND d.state <> 2 /* DELIVERY_STATE_DELIVERED */ AND d.state <> 4 /* DELIVERY_STATE_DEAD */
    WHERE h.came_to <> 1 /* DELIVERY_STATE_PENDING */ AND h.came_to <> 3 /* DELIVERY_STATE_FAILED */
    UNION ALL
    SELECT d.instance_id, d.id, d.is_followed, e.came_to FROM ended e
        JOIN deliveries d ON d.instance_id = e.instance_id AND d.follows = e.id AND d.is_held AND d.state <> 2 /* DELIVERY_STATE_DELIVERED */ AND d.state <> 4 /* DELIVERY_STATE_DEAD */
    WHERE e.came_to = 4 /* DELIVERY_STATE_DEAD */ AND e.is_followed
)
UPDATE deliveries d SET is_held = false, change_date = @now::timestamptz, queued_date = CASE WHEN e.came_to = 2 /* DELIVERY_STATE_DELIVERED */ THEN @now::timestamptz ELSE d.queued_date END,
    state = CASE WHEN e.came_to = 4 /* DELIVERY_STATE_DEAD */ THEN 4 /* DELIVERY_STATE_DEAD */ ELSE d.state END, dead_reason = CASE WHEN e.came_to = 4 /* DELIVERY_STATE_DEAD */ THEN 5 /* DEAD_REASON_INTERRUPTED */ ELSE d.dead_reason END,
    next_attempt = CASE WHEN e.came_to <> 4 /* DELIVERY_STATE_DEAD */ THEN d.next_attempt END
FROM ended e WHERE d.instance_id = e.instance_id AND d.id = e.id
RETURNING d.instance_id, d.target, d.object_type, d.object_id;

-- name: HeldDeliveries :many
-- Some of what is held, from a place on, and whether what it follows is still to be sent.
SELECT d.instance_id, d.id, d.follows::text AS follows,
    EXISTS (SELECT FROM deliveries h WHERE h.instance_id = d.instance_id AND h.id = d.follows AND h.state <> 2 /* DELIVERY_STATE_DELIVERED */ AND h.state <> 4 /* DELIVERY_STATE_DEAD */)::bool AS waits
FROM deliveries d WHERE d.is_held AND (d.instance_id, d.id) > (@after_instance_id::text, @after_id::text)
ORDER BY d.instance_id, d.id LIMIT @batch::int;

-- name: ReleaseDeliveryQueues :many
-- Gives queues back, which are locked, and in which nothing is due; unless something was
-- put into them meanwhile.
UPDATE delivery_queues q SET leased_by = NULL, lease_end = NULL, failures = n.failures,
    due_at = (SELECT min(d.next_attempt) FROM deliveries d WHERE d.instance_id = q.instance_id AND d.target = q.target AND d.next_attempt IS NOT NULL)
FROM (SELECT unnest(@instance_ids::text[]) AS instance_id, unnest(@targets::text[]) AS target, unnest(@leases::text[]) AS lease,
    unnest(@versions::bigint[]) AS version, unnest(@failures::int[]) AS failures) n
WHERE q.instance_id = n.instance_id AND q.target = n.target AND q.leased_by = n.lease AND q.version = n.version
    AND NOT EXISTS (SELECT FROM deliveries d WHERE d.instance_id = q.instance_id AND d.target = q.target AND d.next_attempt <= @now::timestamptz)
RETURNING q.instance_id, q.target;

-- name: PauseDeliveryQueue :exec
-- Gives a queue back that is to be left alone until then; but not when its target is gone.
UPDATE delivery_queues q SET leased_by = NULL, lease_end = NULL, failures = @failures::int,
    due_at = CASE WHEN q.due_at = '-infinity' THEN q.due_at ELSE @due_at::timestamptz END
WHERE q.instance_id = @instance_id AND q.target = @target AND q.leased_by = @lease::text;

-- name: EndQueue :many
-- Ends some deliveries to a target that is gone.
UPDATE deliveries e SET state = 4 /* DELIVERY_STATE_DEAD */, dead_reason = 4 /* DEAD_REASON_TARGET_DELETED */, next_attempt = NULL, is_held = false, change_date = @now::timestamptz
WHERE e.instance_id = @instance_id AND e.id IN (
    SELECT d.id FROM deliveries d JOIN delivery_queues q ON q.instance_id = d.instance_id AND q.target = d.target AND q.leased_by = @lease::text
    WHERE d.instance_id = @instance_id AND d.target = @target AND d.state IN (1 /* DELIVERY_STATE_PENDING */, 3 /* DELIVERY_STATE_FAILED */) LIMIT @batch::int FOR NO KEY UPDATE OF q)
RETURNING e.id, e.is_followed;

-- name: DeleteDeliveryQueue :execrows
DELETE FROM delivery_queues q WHERE q.instance_id = @instance_id AND q.target = @target AND q.leased_by = @lease::text AND q.version = @version;

-- name: ReplayDeliveries :execrows
-- What failed is due already, or was to be later. What follows another waits for that
-- only if it is still to be sent, then or by this.
UPDATE deliveries d SET state = 1 /* DELIVERY_STATE_PENDING */, dead_reason = 0 /* DEAD_REASON_UNSPECIFIED */, attempts = 0, queued_date = @now::timestamptz, change_date = @now::timestamptz, is_held = n.is_held,
    next_attempt = CASE WHEN d.state = 3 /* DELIVERY_STATE_FAILED */ AND NOT n.is_held THEN @now::timestamptz END
FROM (SELECT o.id, o.follows IS NOT NULL AND EXISTS (
        SELECT FROM deliveries h WHERE h.instance_id = o.instance_id AND h.id = o.follows AND (h.state <> 2 /* DELIVERY_STATE_DELIVERED */ AND h.state <> 4 /* DELIVERY_STATE_DEAD */ OR h.id = ANY (@ids::text[]))) AS is_held
    FROM deliveries o WHERE o.instance_id = @instance_id AND o.id = ANY (@ids::text[]) AND o.state <> 1 /* DELIVERY_STATE_PENDING */) n
WHERE d.instance_id = @instance_id AND d.id = n.id;

-- name: IsToBeSent :one
-- Whether a delivery is still to reach its target.
SELECT EXISTS (SELECT FROM deliveries d WHERE d.instance_id = @instance_id AND d.id = @id AND d.state <> 2 /* DELIVERY_STATE_DELIVERED */ AND d.state <> 4 /* DELIVERY_STATE_DEAD */)::bool AS is;

-- name: ExistingTargets :many
-- Which targets exist; they cannot be deleted before this transaction ends.
SELECT id FROM targets WHERE instance_id = @instance_id AND id = ANY (@ids::text[]) ORDER BY id FOR KEY SHARE;

-- name: AttemptsOfDelivery :many
SELECT * FROM delivery_attempts WHERE instance_id = @instance_id AND delivery = @delivery ORDER BY number;

-- name: SweepDeliveries :one
-- Deletes some deliveries that ended, of those that were queued before a time.
WITH old AS (
    SELECT o.instance_id, o.id FROM instances i CROSS JOIN LATERAL (
        SELECT d.instance_id, d.id FROM deliveries d WHERE d.instance_id = i.id AND d.creation_date < @before::timestamptz AND d.change_date < @before::timestamptz AND d.state IN (2 /* DELIVERY_STATE_DELIVERED */, 4 /* DELIVERY_STATE_DEAD */)
        ORDER BY d.creation_date LIMIT @batch::int) o
    LIMIT @batch::int
), attempts AS (
    DELETE FROM delivery_attempts a USING old WHERE a.instance_id = old.instance_id AND a.delivery = old.id
), deleted AS (
    DELETE FROM deliveries d USING old WHERE d.instance_id = old.instance_id AND d.id = old.id RETURNING 1
)
SELECT count(*) FROM deleted;
