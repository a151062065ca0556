-- name: OrganizationIDs :many
-- The organizations that an export is about, without those that are left out.
SELECT id FROM organizations WHERE instance_id = @instance_id AND (cardinality(@org_ids::text[]) = 0 OR id = ANY (@org_ids::text[])) AND id <> ALL (@excluded::text[])
ORDER BY id;

-- name: UnknownOrganizations :many
-- Those of a list that there are not.
SELECT n.id::text FROM unnest(@ids::text[]) AS n (id)
WHERE NOT EXISTS (SELECT FROM organizations o WHERE o.instance_id = @instance_id AND o.id = n.id) ORDER BY 1;

-- name: CredentialsBehind :many
-- What document 2 leaves out of exports, by organization.
SELECT b.kind::text AS kind, b.org_id::text AS org_id, count(*) AS count FROM (
    SELECT 'machineKeys' AS kind, k.org_id FROM machine_keys k WHERE k.instance_id = @instance_id
    UNION ALL SELECT 'personalAccessTokens', t.org_id FROM personal_access_tokens t WHERE t.instance_id = @instance_id
    UNION ALL SELECT 'appKeys', a.org_id FROM app_keys a WHERE a.instance_id = @instance_id
) b WHERE b.org_id = ANY (@org_ids::text[]) GROUP BY 1, 2 ORDER BY 1, 2;

-- name: LockImports :exec
-- Imports into an instance are one after the other.
SELECT pg_advisory_xact_lock(hashtextextended('import/' || @instance_id::text, 0));

-- name: LongTransaction :exec
-- One of much work, whose statements are planned for what there is and may take long.
SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true),
    set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true), set_config('work_mem', '32MB', true), set_config('gin_pending_list_limit', '65536', true);

-- name: RowsOf :one
-- About how many rows of some tables an instance has.
SELECT coalesce(sum(n), 0)::bigint FROM row_counts WHERE instance_id = @instance_id AND resource = ANY (@tables::text[]);
