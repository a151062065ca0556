-- name: TokenKeys :many
-- The keys that opaque tokens of an instance are sealed with, the newest last.
SELECT number, secret FROM token_keys WHERE instance_id = @instance_id ORDER BY number;

-- name: AddTokenKey :exec
-- Of nodes that make the first key at the same time one succeeds.
INSERT INTO token_keys (instance_id, number, secret, creation_date) VALUES (@instance_id, @number, @secret, @now::timestamptz)
ON CONFLICT DO NOTHING;
