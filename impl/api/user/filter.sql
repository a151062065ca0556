-- name: PrimaryDomains
-- The organizations that have a primary domain; conditions on d come behind it.
SELECT d.org_id FROM domains d WHERE d.instance_id = /*:instance*/ $1 /**/ AND d.org_id IS NOT NULL AND d.is_primary;

-- name: InDomain
SELECT FROM users t WHERE /*[*/ t.org_id = ANY(ARRAY(SELECT d.org_id FROM domains d
    WHERE d.instance_id = /*:instance*/ $1 /**/ AND d.org_id IS NOT NULL AND d.is_primary AND /*:condition*/ true /**/)) /*]*/;

-- name: InOrganizations
SELECT FROM users t WHERE /*[*/ t.org_id = ANY(/*:orgs*/ $1 /**/::text[]) /*]*/;

-- name: WithoutDomain
SELECT FROM users t WHERE /*[*/ NOT EXISTS (SELECT d.org_id FROM domains d
    WHERE d.instance_id = /*:instance*/ $1 /**/ AND d.org_id IS NOT NULL AND d.is_primary AND d.org_id = t.org_id) AND /*:name*/ true /**/ /*]*/;

-- name: NameInDomain
SELECT FROM users t WHERE /*[*/ /*:name*/ true /**/ AND /*:domain*/ true /**/ /*]*/;

-- name: EmailFromBehind
SELECT FROM users t WHERE /*[*/ reverse(t.email_folded) LIKE /*:pattern*/ $1 /**/ /*]*/;

-- name: InEmails
SELECT FROM users t WHERE /*[*/ t.email_folded = ANY(/*:emails*/ $1 /**/::text[]) /*]*/;

-- name: Phone
SELECT FROM users t WHERE /*[*/ t.phone LIKE /*:pattern*/ $1 /**/ /*]*/;

-- name: Entries
-- The users with entries of metadata; conditions on m come behind it.
SELECT m.user_id FROM user_metadata m WHERE m.instance_id = /*:instance*/ $1 /**/;

-- name: OneOf
SELECT FROM users t WHERE /*[*/ t.id = ANY(/*:users*/ $1 /**/::text[]) /*]*/;

-- name: WithEntry
SELECT FROM users t WHERE /*[*/ t.id IN (SELECT m.user_id FROM user_metadata m
    WHERE m.instance_id = /*:instance*/ $1 /**/ AND /*:condition*/ true /**/) /*]*/;

-- name: EntryIs
SELECT FROM user_metadata m WHERE /*[*/ m.id = /*:key*/ $1 /**/ AND sha256(m.value) = sha256(/*:value*/ $2 /**/::bytea) /*]*/;
