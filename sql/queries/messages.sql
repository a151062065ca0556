-- name: QueueMessage :exec
-- Without messages: sent_date, sequence, dead_reason, all_attempts: it was not sent yet, and has no events.
-- Workers hear of it when the transaction commits (store.Messages), so that they
-- need not ask all the time.
WITH queued AS (INSERT INTO messages (instance_id, id, org_id, user_id, kind, template, recipient, language, payload, state, attempts, next_attempt, creation_date, change_date, expiration_date)
VALUES (@instance_id, @id, @org_id, @user_id, @kind, @template, @recipient, @language, @payload, 1 /* MESSAGE_STATE_PENDING */, 0, @now::timestamptz, @now::timestamptz, @now::timestamptz, sqlc.narg(expiration_date)))
SELECT pg_notify('writ_changed', 'messages');

-- name: TakeMessages :many
-- Takes messages that are due and counts the attempt; until the lease ends nobody
-- else takes them. Workers of other nodes skip what this one is just taking. An instance
-- and an organization that have their share of the node already wait.
UPDATE messages SET attempts = attempts + 1, all_attempts = all_attempts + 1, next_attempt = @lease_end::timestamptz
WHERE (instance_id, id) IN (
    SELECT m.instance_id, m.id FROM messages m WHERE m.state = 1 /* MESSAGE_STATE_PENDING */ AND m.next_attempt <= @now::timestamptz
        AND m.instance_id <> ALL (@full_instances::text[]) AND m.instance_id || '/' || m.org_id <> ALL (@full_orgs::text[])
    ORDER BY m.next_attempt FOR UPDATE SKIP LOCKED LIMIT @page_limit::int)
RETURNING *;

-- name: EndMessageAttempt :exec
-- Only the worker whose attempt it was says that it failed; whoever sent it says so.
WITH ended AS (
    UPDATE messages m SET state = @state, dead_reason = @dead_reason, next_attempt = @next_attempt::timestamptz, change_date = @now::timestamptz,
        sent_date = CASE WHEN @is_sent::bool THEN @now::timestamptz ELSE m.sent_date END, payload = CASE WHEN @blank::bool THEN '{}' ELSE m.payload END
    WHERE m.instance_id = @instance_id AND m.id = @id AND m.state = 1 /* MESSAGE_STATE_PENDING */ AND (m.attempts = @attempts OR @is_sent::bool)
    RETURNING m.instance_id, m.id)
INSERT INTO delivery_attempts (instance_id, delivery, number, date, took_nanos, status, answer, error, headers, provider)
SELECT e.instance_id, e.id, @number::int, @date::timestamptz, @took_nanos::bigint, @status::int, '', @error::text, '{}', @provider::text
FROM ended e WHERE @attempted::bool
ON CONFLICT DO NOTHING;

-- name: NotifyMessages :exec
SELECT pg_notify('writ_changed', 'messages');

-- name: SweepMessages :execrows
-- Deletes some messages that were sent or given up before a time.
DELETE FROM messages d WHERE (d.instance_id, d.id) IN (
    SELECT m.instance_id, m.id FROM messages m WHERE m.creation_date < @before::timestamptz AND m.change_date < @before::timestamptz AND m.state <> 1 /* MESSAGE_STATE_PENDING */
    ORDER BY m.creation_date, m.id LIMIT @batch::int);

-- name: NewestMessages :many
SELECT * FROM messages WHERE (@recipient::text = '' OR recipient = @recipient) AND (@user_id::text = '' OR user_id = @user_id)
ORDER BY creation_date DESC, id DESC LIMIT @page_limit::int;
