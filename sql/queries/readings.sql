-- name: Readings :one
-- What is at a moment, for metrics: what waits to be sent, counted up to a number, since
-- when the oldest is due, and dates of keys; the epoch is none. Of all instances.
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM deliveries d WHERE d.state IN (1 /* DELIVERY_STATE_PENDING */, 3 /* DELIVERY_STATE_FAILED */) LIMIT sqlc.arg(most)::bigint) queued) AS deliveries,
    (SELECT count(*) FROM (SELECT 1 FROM messages m WHERE m.state = 1 /* MESSAGE_STATE_PENDING */ LIMIT sqlc.arg(most)::bigint) queued) AS messages,
    (SELECT coalesce(min(q.due_at), 'epoch') FROM delivery_queues q)::timestamptz AS delivery_due,
    (SELECT coalesce(min(m.next_attempt), 'epoch') FROM messages m WHERE m.state = 1 /* MESSAGE_STATE_PENDING */)::timestamptz AS message_due,
    (SELECT coalesce(min(k.due_date), 'epoch') FROM signing_keys k WHERE k.state = 2 /* KEY_STATE_ACTIVE */)::timestamptz AS signs_since,
    (SELECT coalesce(min(k.due_date), 'epoch') FROM signing_keys k WHERE k.state = 1 /* KEY_STATE_NEXT */)::timestamptz AS signs_next;
