-- +goose Up
-- What is read along with a row that no column of its table holds. The contract says
-- which view a table is read from (writ.storage.v1.Table.rows).
CREATE VIEW user_rows AS SELECT t.*,
    (t.username || coalesce((SELECT '@' || d.domain FROM domains d WHERE d.instance_id = t.instance_id AND d.org_id = t.org_id AND d.is_primary), ''))::text AS login_name,
    (t.secret_hash IS NOT NULL)::boolean AS has_secret
FROM users t;

CREATE VIEW organization_rows AS SELECT t.*,
    coalesce((SELECT d.domain FROM domains d WHERE d.instance_id = t.instance_id AND d.org_id = t.id AND d.is_primary), '')::text AS primary_domain,
    (EXISTS (SELECT FROM instances i WHERE i.id = t.instance_id AND i.default_org = t.id))::boolean AS is_default
FROM organizations t;

CREATE VIEW instance_rows AS SELECT t.*,
    coalesce((SELECT d.domain FROM domains d WHERE d.instance_id = t.id AND d.org_id IS NULL AND d.is_primary), '')::text AS primary_domain
FROM instances t;

CREATE VIEW session_rows AS SELECT t.*,
    coalesce((SELECT u.username || coalesce('@' || d.domain, '') FROM users u LEFT JOIN domains d ON d.instance_id = u.instance_id AND d.org_id = u.org_id AND d.is_primary
        WHERE u.instance_id = t.instance_id AND u.id = t.user_id), '')::text AS login_name,
    coalesce((SELECT u.display_name FROM users u WHERE u.instance_id = t.instance_id AND u.id = t.user_id), '')::text AS display_name
FROM sessions t;
