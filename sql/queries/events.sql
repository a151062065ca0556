-- name: AppendEvent :one
SELECT append_event(@instance_id, @aggregate_type, @aggregate_id, @event_type, @payload, @creator, @owner_type, @owner_id, @now::timestamptz, @client_address, @traceparent)::bigint AS sequence;

-- name: AppendEvents :exec
-- Many events in one statement, in their order: lists that belong together.
INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent)
SELECT unnest(@instance_ids::text[]), unnest(@aggregate_types::text[]), unnest(@aggregate_ids::text[]), unnest(@event_types::text[]), unnest(@payloads::text[])::jsonb,
    unnest(@creators::text[]), unnest(@owner_types::smallint[]), unnest(@owner_ids::text[]), unnest(@created_ats::timestamptz[]),
    unnest(@client_addresses::text[]), unnest(@traceparents::text[]);

-- name: NewestEvent :one
SELECT sequence, created_at FROM events WHERE instance_id = @instance_id ORDER BY sequence DESC LIMIT 1;

-- name: EndOfEvents :one
-- The newest event, and where those of the instance end that nothing can come before any more:
-- statements after this one may read below it. The newest may wait for a further transaction.
SELECT e.sequence, e.created_at, (e.xid >= pg_snapshot_xmax(pg_current_snapshot()))::bool AS is_coming, events_settled(@instance_id)::xid8 AS below
FROM events e WHERE e.instance_id = @instance_id ORDER BY e.sequence DESC LIMIT 1;

-- name: EventBounds :many
-- Below which transaction no event can appear any more, of everybody and of those who are
-- being written to (sql/migrations/00040_event_order.sql). What it bounds is read by a
-- statement that begins after it (REL-035).
SELECT coalesce(b.instance_key, -1)::bigint AS instance_key, b.below::xid8 AS below FROM event_bounds() b;

-- name: ReadEvents :many
-- Every event exactly once, in an order that agrees with commit order.
SELECT * FROM events
WHERE (xid, sequence) > (@after_xid::xid8, @after_sequence::bigint)
  AND xid < @below::xid8
ORDER BY xid, sequence
LIMIT @page_limit::int;

-- name: PassTransaction :exec
-- An event may have the number of the next transaction to come: what follows it can be read
-- when there was one.
SELECT pg_current_xact_id();

-- name: NotifyChange :exec
-- Tells every node, when the transaction commits, to drop what it remembers of
-- instances, callers and features. Only the transactions that change those
-- notify: a notification takes a lock that all notifiers share.
SELECT pg_notify('writ_changed', '');

-- name: SetActor :exec
-- Who deletes, when, and from where, for the events of what goes along (sql/migrations/*_removals.sql).
SELECT set_config('writ.actor', @actor::text, true), set_config('writ.now', @now::text, true),
    set_config('writ.client_address', @client_address::text, true), set_config('writ.traceparent', @traceparent::text, true);

-- name: NewestSettled :one
-- The last event behind which nothing can appear any more: what transactions that
-- still run will commit comes after it (REL-035).
SELECT sequence FROM events WHERE instance_id = @instance_id AND xid < @below::xid8
ORDER BY xid DESC, sequence DESC LIMIT 1;

-- name: CommitOf :one
SELECT xid FROM events WHERE instance_id = @instance_id AND sequence = @sequence;

-- name: CommitAfter :one
-- For an event that was swept: the first of the transactions whose events may have
-- come after it. Those took their numbers at about the same time, so it is looked for
-- among the next ones; some events may be seen again, none is passed over.
SELECT later.xid FROM (
    SELECT e.xid FROM events e WHERE e.instance_id = @instance_id AND e.sequence > @sequence ORDER BY e.sequence LIMIT 1000
) later ORDER BY later.xid LIMIT 1;

-- name: EndOfStretch :one
-- The last of the next events of an instance in the order of commits, as ReadEvents
-- has it: how far a follower may look at once.
SELECT part.xid, part.sequence, count(*) OVER ()::bigint AS n FROM (
    SELECT e.xid, e.sequence FROM events e
    WHERE e.instance_id = @instance_id AND (e.xid, e.sequence) > (@after_xid::xid8, @after_sequence::bigint)
      AND e.xid < @below::xid8
    ORDER BY e.xid, e.sequence LIMIT @stretch::int
) part ORDER BY part.xid DESC, part.sequence DESC LIMIT 1;
