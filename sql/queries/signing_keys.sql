-- name: SigningKeys :many
SELECT * FROM signing_keys WHERE instance_id = @instance_id ORDER BY state, creation_date, id;

-- name: LockSigningKeys :exec
-- One node changes the keys of an instance at a time.
SELECT pg_advisory_xact_lock(hashtextextended('signing_keys/' || @instance_id::text, 0));

-- name: AddSigningKey :exec
INSERT INTO signing_keys (instance_id, id, algorithm, state, public_key, private_key, creation_date, due_date, signs_from)
VALUES (@instance_id, @id, @algorithm, @state, @public_key, @private_key, @now::timestamptz, @due_date, sqlc.narg('signs_from'));

-- name: AlgorithmsOfApps :many
-- What applications ask for.
SELECT DISTINCT id_token_signed_response_alg FROM apps WHERE instance_id = @instance_id AND id_token_signed_response_alg <> 0 /* SIGNATURE_ALGORITHM_UNSPECIFIED */;

-- name: MoveSigningKey :exec
UPDATE signing_keys SET state = @state, due_date = @due_date WHERE instance_id = @instance_id AND id = @id;

-- name: PutAwaySigningKey :exec
-- Takes a key out of the key set; what it signed are hints from now on.
UPDATE signing_keys SET state = 4 /* KEY_STATE_PAST */, due_date = @due_date, private_key = '' WHERE instance_id = @instance_id AND id = @id;

-- name: DeleteSigningKey :execrows
DELETE FROM signing_keys WHERE instance_id = @instance_id AND id = @id;

-- name: InstanceIDs :many
SELECT id FROM instances ORDER BY id;

-- name: InstancesWithKeys :many
SELECT DISTINCT instance_id FROM signing_keys k WHERE NOT EXISTS (SELECT FROM moved_instances m WHERE m.instance_id = k.instance_id) ORDER BY instance_id;
