-- name: ByDomain
SELECT FROM instances t WHERE /*[*/ EXISTS (SELECT FROM domains d
    WHERE d.instance_id = t.id AND d.org_id IS NULL AND d.is_verified AND /*:condition*/ true /**/) /*]*/;
