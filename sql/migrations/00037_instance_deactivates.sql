-- +goose Up
-- What an instance defines and has deactivated no organization activates again, as what it has
-- deactivated of the system's (impl/core/resource/reusable.go says the same). Of providers of
-- messages a context uses one at a time: that an instance uses another one puts none off.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION is_effective(p_kind text, p_instance_id text, p_org_id text, p_id text, p_policy smallint, at_instance_id text, at_org_id text)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN p_instance_id <> '' AND p_org_id IS NULL AND p_policy = 2 AND p_kind NOT IN ('smtp_providers', 'sms_providers') THEN false
        WHEN p_instance_id = '' AND at_instance_id <> '' AND i.state_policy = 2 THEN false
        WHEN p_org_id IS NULL AND at_org_id <> '' AND o.state_policy <> 3 THEN o.state_policy = 1
        WHEN p_instance_id = '' AND at_instance_id <> '' AND i.state_policy = 1 THEN true
        ELSE p_policy <> 2
    END
    FROM (SELECT 1) one
    LEFT JOIN state_policies i ON i.instance_id = at_instance_id AND i.org_id = '' AND i.kind = p_kind AND i.resource_instance_id = p_instance_id AND i.resource_id = p_id
    LEFT JOIN state_policies o ON o.instance_id = at_instance_id AND o.org_id = at_org_id AND o.kind = p_kind AND o.resource_instance_id = p_instance_id AND o.resource_id = p_id
$$;
-- +goose StatementEnd
