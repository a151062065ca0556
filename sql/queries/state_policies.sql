-- name: StatePolicies :many
-- What a context and the one above it say of resources.
SELECT * FROM state_policies
WHERE instance_id = @instance_id AND org_id IN ('', @org_id::text) AND kind = @kind AND resource_id = ANY(@resource_ids::text[]);

-- name: SetStatePolicy :exec
INSERT INTO state_policies (instance_id, org_id, kind, resource_instance_id, resource_id, state_policy, sequence, change_date)
VALUES (@instance_id, @org_id, @kind, @resource_instance_id, @resource_id, @state_policy, @sequence, @change_date)
ON CONFLICT (instance_id, org_id, kind, resource_instance_id, resource_id)
DO UPDATE SET state_policy = excluded.state_policy, sequence = excluded.sequence, change_date = excluded.change_date;

-- name: DeleteStatePolicies :exec
DELETE FROM state_policies WHERE kind = @kind AND resource_instance_id = @resource_instance_id AND resource_id = @resource_id;
