-- name: LockSwitch :exec
-- Of the providers of a context one is switched at a time: of two that are activated at
-- once the first is off when the second is on.
SELECT pg_advisory_xact_lock(hashtextextended('switch/' || @kind::text || '/' || @instance_id::text || '/' || @org_id::text, 0));

-- name: ActiveSMTPProvider :one
-- The provider that a context sends through: of those that are active in it the one that
-- the nearest context activated, which may be the one that defines it.
SELECT t.* FROM smtp_providers t
    LEFT JOIN state_policies o ON o.instance_id = @instance_id AND o.org_id = @org_id AND o.kind = 'smtp_providers' AND o.resource_instance_id = t.instance_id AND o.resource_id = t.id
    LEFT JOIN state_policies i ON i.instance_id = @instance_id AND i.org_id = '' AND i.kind = 'smtp_providers' AND i.resource_instance_id = t.instance_id AND i.resource_id = t.id
WHERE t.instance_id IN ('', @instance_id::text) AND (t.org_id IS NULL OR t.org_id = @org_id::text)
    AND is_effective('smtp_providers', t.instance_id, t.org_id, t.id, t.state_policy, @instance_id, @org_id)
ORDER BY CASE WHEN t.org_id IS NOT NULL OR o.state_policy = 1 /* STATE_POLICY_ACTIVATE */ THEN 1 WHEN t.instance_id <> '' OR i.state_policy = 1 /* STATE_POLICY_ACTIVATE */ THEN 2 ELSE 3 END, t.creation_date, t.id LIMIT 1;

-- name: ActiveSMSProvider :one
-- As ActiveSMTPProvider.
SELECT t.* FROM sms_providers t
    LEFT JOIN state_policies o ON o.instance_id = @instance_id AND o.org_id = @org_id AND o.kind = 'sms_providers' AND o.resource_instance_id = t.instance_id AND o.resource_id = t.id
WHERE t.instance_id = @instance_id::text AND t.org_id IS NULL
    AND is_effective('sms_providers', t.instance_id, t.org_id, t.id, t.state_policy, @instance_id, @org_id)
ORDER BY CASE WHEN o.state_policy = 1 /* STATE_POLICY_ACTIVATE */ THEN 1 ELSE 2 END, t.creation_date, t.id LIMIT 1;

-- name: CanMail :one
-- Whether an instance, or any organization in it, sends e-mails at all.
SELECT (EXISTS (SELECT FROM smtp_providers t WHERE t.instance_id = @instance_id AND t.org_id IS NOT NULL AND t.state_policy <> 2 /* STATE_POLICY_DEACTIVATE */)
    OR EXISTS (SELECT FROM smtp_providers t WHERE t.instance_id IN ('', @instance_id) AND t.org_id IS NULL
        AND is_effective('smtp_providers', t.instance_id, t.org_id, t.id, t.state_policy, @instance_id::text, ''))
    OR EXISTS (SELECT FROM state_policies p WHERE p.instance_id = @instance_id AND p.org_id <> '' AND p.kind = 'smtp_providers' AND p.state_policy = 1 /* STATE_POLICY_ACTIVATE */))::bool AS can;

-- name: CanText :one
-- Whether an instance, or any organization in it, sends text messages at all.
SELECT (EXISTS (SELECT FROM sms_providers t WHERE t.instance_id = @instance_id AND t.state_policy <> 2 /* STATE_POLICY_DEACTIVATE */)
    OR EXISTS (SELECT FROM state_policies p WHERE p.instance_id = @instance_id AND p.org_id <> '' AND p.kind = 'sms_providers' AND p.state_policy = 1 /* STATE_POLICY_ACTIVATE */))::bool AS can;

-- name: MayBeSender :one
-- Whether e-mails to users of an instance may be from an address at a domain, which the
-- instance or the organization of the provider has proven, if that matters. The system has
-- no domains.
SELECT (NOT EXISTS (SELECT FROM instances i WHERE i.id = @instance_id AND i.smtp_sender_address_matches_instance_domain)
    OR EXISTS (SELECT FROM domains d WHERE d.instance_id = @instance_id AND d.domain = lower(@domain::text) AND d.is_verified
        AND (d.org_id IS NULL OR d.org_id = @org_id::text)))::bool AS may;

-- name: HoldsElsewhere :one
-- Whether a user holds roles outside of an organization: on the instance, in another one.
SELECT EXISTS (SELECT FROM memberships m WHERE m.instance_id = @instance_id AND m.user_id = @user_id AND m.org_id IS DISTINCT FROM @org_id::text)::bool AS holds;
