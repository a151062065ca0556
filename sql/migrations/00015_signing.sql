-- +goose Up
-- The key that calls to a target are signed with, sealed by the master key; the one before
-- it signs too until its time is over. Targets of before have none: their calls fail until
-- they are given one.
ALTER TABLE targets
    ADD COLUMN signing_key bytea NOT NULL DEFAULT '',
    ADD COLUMN old_signing_key bytea,
    ADD COLUMN old_signing_key_until timestamptz;

-- Targets are called by http and https, without credentials in the URL. What never could
-- be called leads nowhere now, and tells what it was.
WITH moved AS (
    SELECT instance_id, id, left('https://refused.invalid/?was=' || regexp_replace(url, '[^A-Za-z0-9._~/:-]', '_', 'g'), 1000) AS url
    FROM targets WHERE url !~ '^https?://[^/?#@]+([/?#].*)?$'
)
UPDATE targets t SET url = moved.url, change_date = now(),
    sequence = append_event(t.instance_id, 'target', t.id, 'target.changed', jsonb_build_object('url', moved.url), 'system', 2::smallint, t.instance_id, now())
FROM moved WHERE t.instance_id = moved.instance_id AND t.id = moved.id;
