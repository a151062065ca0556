-- name: ByDomain
SELECT FROM organizations t WHERE /*[*/ EXISTS (SELECT FROM domains d
    WHERE d.instance_id = t.instance_id AND d.org_id = t.id AND d.is_verified AND /*:condition*/ true /**/) /*]*/;
