-- name: Events
-- The columns are those that this program knows: beside a newer one the table may have more.
SELECT e.instance_id, e.sequence, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.creator, e.owner_type, e.owner_id, e.created_at, e.xid, e.client_address, e.traceparent
FROM events e WHERE /*:conditions*/ true /**/
ORDER BY /*:order*/ sequence /**/ LIMIT /*:limit*/ 1 /**/::bigint OFFSET /*:offset*/ 0 /**/::bigint;

-- name: EventsOfTypes
-- Types are looked for one by one, each in its order and no further than the page: an index
-- has the events of one type sorted, not those of several.
SELECT o.* FROM unnest(/*:types*/ $1 /**/::text[]) AS kind (name) CROSS JOIN LATERAL (
    SELECT e.instance_id, e.sequence, e.aggregate_type, e.aggregate_id, e.event_type, e.payload, e.creator, e.owner_type, e.owner_id, e.created_at, e.xid, e.client_address, e.traceparent
    FROM events e WHERE /*:conditions*/ true /**/ AND e.event_type = kind.name
    ORDER BY /*:order*/ sequence /**/ LIMIT /*:share*/ 1 /**/::bigint) o
ORDER BY /*:order*/ sequence /**/ LIMIT /*:limit*/ 1 /**/::bigint OFFSET /*:offset*/ 0 /**/::bigint;

-- name: NotLongBefore
-- Events are numbered about when they happen: a call takes seconds at most, and the
-- clocks of nodes differ little. So in a long trail a time bounds the sequence as well,
-- with an hour to spare, and a search need not read everything before it.
SELECT FROM events e WHERE /*[*/ e.sequence > coalesce((SELECT b.sequence FROM events b
    WHERE b.instance_id = /*:instance*/ $1 /**/ AND b.created_at < /*:at*/ $2 /**/::timestamptz - interval '1 hour' ORDER BY b.created_at DESC LIMIT 1), 0) /*]*/;

-- name: NotLongAfter
SELECT FROM events e WHERE /*[*/ e.sequence < coalesce((SELECT b.sequence FROM events b
    WHERE b.instance_id = /*:instance*/ $1 /**/ AND b.created_at > /*:at*/ $2 /**/::timestamptz + interval '1 hour' ORDER BY b.created_at LIMIT 1), 9223372036854775807) /*]*/;
