-- name: MasterKeys :many
-- The master keys that seal what is in this database. Of all instances.
SELECT id, proof FROM master_keys;

-- name: LockMasterKeys :exec
-- Two nodes that start with a key each do not both find the database unclaimed.
SELECT pg_advisory_xact_lock(hashtextextended('master_keys', 0));

-- name: ClaimMasterKey :exec
-- The first claim by a key stays.
INSERT INTO master_keys (id, proof) VALUES (@id, @proof) ON CONFLICT DO NOTHING;

-- name: ReleaseMasterKeys :exec
-- Nothing is sealed by other keys any more.
DELETE FROM master_keys WHERE id <> @id;
