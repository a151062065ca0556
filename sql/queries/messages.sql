-- name: QueueMessage :exec
-- Workers hear of it when the transaction commits (store.Messages), so that they
-- need not ask all the time.
WITH queued AS (INSERT INTO messages (instance_id, id, org_id, user_id, kind, template, recipient, language, payload, state, attempts, next_attempt, creation_date)
VALUES (@instance_id, @id, @org_id, @user_id, @kind, @template, @recipient, @language, @payload, 1, 0, @now::timestamptz, @now::timestamptz))
SELECT pg_notify('writ_changed', 'messages');

-- name: TakeMessages :many
-- Takes messages that are due and counts the attempt; until the lease ends nobody
-- else takes them. Workers of other nodes skip what this one is just taking.
UPDATE messages SET attempts = attempts + 1, next_attempt = @lease_end::timestamptz
WHERE (instance_id, id) IN (
    SELECT m.instance_id, m.id FROM messages m WHERE m.state = 1 AND m.next_attempt <= @now::timestamptz
    ORDER BY m.next_attempt FOR UPDATE SKIP LOCKED LIMIT @page_limit::int)
RETURNING *;

-- name: MessageSent :exec
UPDATE messages SET state = 2, sent_date = @now::timestamptz, payload = CASE WHEN @keep::bool THEN payload ELSE '{}' END
WHERE instance_id = @instance_id AND id = @id AND state = 1;

-- name: MessageFailed :exec
-- Only the worker whose attempt it was says what comes of it.
UPDATE messages SET next_attempt = @next_attempt::timestamptz, state = CASE WHEN @dead::bool THEN 3 ELSE 1 END,
    payload = CASE WHEN @dead::bool AND NOT @keep::bool THEN '{}' ELSE payload END
WHERE instance_id = @instance_id AND id = @id AND attempts = @attempts AND state = 1;

-- name: NewestMessages :many
SELECT * FROM messages WHERE (@recipient::text = '' OR recipient = @recipient) AND (@user_id::text = '' OR user_id = @user_id)
ORDER BY creation_date DESC, id DESC LIMIT @page_limit::int;

-- name: RecentMessages :one
SELECT count(*) FROM messages WHERE instance_id = @instance_id AND user_id = @user_id AND recipient = @recipient AND creation_date > @since::timestamptz;
