-- name: Settings :many
-- What a context and those above it say of some subjects, the nearest first.
SELECT * FROM settings
WHERE (instance_id, org_id) IN ((@instance_id::text, @org_id::text), (@instance_id::text, ''), ('', ''))
    AND subject = ANY(@subjects::text[])
ORDER BY (org_id <> '') DESC, (instance_id <> '') DESC;

-- name: LockSetting :one
-- Makes the row if it is not there, so that there is one to lock.
INSERT INTO settings AS s (instance_id, org_id, subject, properties, sequence, change_date)
VALUES (@instance_id, @org_id, @subject, '{}', 0, @now::timestamptz)
ON CONFLICT (instance_id, org_id, subject) DO UPDATE SET sequence = s.sequence
RETURNING *;

-- name: UpdateSetting :exec
UPDATE settings SET properties = @properties, sequence = @sequence, change_date = @change_date
WHERE instance_id = @instance_id AND org_id = @org_id AND subject = @subject;

-- name: PutSettingImage :exec
INSERT INTO setting_images (instance_id, org_id, subject, property, digest, content)
VALUES (@instance_id, @org_id, @subject, @property, @digest, @content)
ON CONFLICT (instance_id, org_id, subject, property) DO UPDATE SET digest = excluded.digest, content = excluded.content;

-- name: DeleteSettingImage :exec
DELETE FROM setting_images WHERE instance_id = @instance_id AND org_id = @org_id AND subject = @subject AND property = @property;

-- name: SettingImage :one
-- A picture of an instance, of one of its organizations or of the system.
SELECT content FROM setting_images WHERE digest = @digest AND instance_id IN (@instance_id::text, '') LIMIT 1;
