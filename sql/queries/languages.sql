-- name: LanguageSettings :many
-- The words of a context and of those above it, nearest first.
SELECT * FROM language_settings
WHERE (instance_id, org_id) IN ((@instance_id::text, @org_id::text), (@instance_id::text, ''), ('', ''))
ORDER BY (org_id <> '') DESC, (instance_id <> '') DESC;

-- name: LockLanguages :one
-- Makes the row if it is not there, so that there is one to lock.
INSERT INTO language_settings AS l (instance_id, org_id, sequence, change_date) VALUES (@instance_id, @org_id, 0, @now::timestamptz)
ON CONFLICT (instance_id, org_id) DO UPDATE SET sequence = l.sequence
RETURNING *;

-- name: UpdateLanguages :exec
UPDATE language_settings SET default_language = sqlc.narg(default_language), restricted_languages = sqlc.narg(restricted_languages), sequence = @sequence, change_date = @change_date
WHERE instance_id = @instance_id AND org_id = @org_id;
