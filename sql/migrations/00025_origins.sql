-- +goose Up
-- Where the request came from that an event is of: the address of the client, as the
-- trusted proxies tell it, and its place in a trace (W3C Trace Context). Empty for what
-- the product does by itself, and for events of before. A default that is constant
-- rewrites nothing.
ALTER TABLE events
    ADD COLUMN client_address text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN traceparent text COLLATE "C" NOT NULL DEFAULT '';
-- A delivery goes on in the trace of its event.
ALTER TABLE deliveries ADD COLUMN traceparent text COLLATE "C" NOT NULL DEFAULT '';

-- +goose StatementBegin
CREATE FUNCTION append_event(
    p_instance_id text, p_aggregate_type text, p_aggregate_id text, p_event_type text,
    p_payload jsonb, p_creator text, p_owner_type smallint, p_owner_id text, p_created_at timestamptz,
    p_client_address text, p_traceparent text
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    appended bigint;
BEGIN
    INSERT INTO events (instance_id, aggregate_type, aggregate_id, event_type, payload, creator, owner_type, owner_id, created_at, client_address, traceparent)
    VALUES (p_instance_id, p_aggregate_type, p_aggregate_id, p_event_type, p_payload, p_creator, p_owner_type, p_owner_id, p_created_at, p_client_address, p_traceparent)
    RETURNING sequence INTO appended;
    RETURN appended;
END
$$;

-- The events of what goes along with a deletion (*_removals.sql) come from where the
-- command came from that says so in writ.client_address and writ.traceparent.
CREATE OR REPLACE FUNCTION append_event(
    p_instance_id text, p_aggregate_type text, p_aggregate_id text, p_event_type text,
    p_payload jsonb, p_creator text, p_owner_type smallint, p_owner_id text, p_created_at timestamptz
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN append_event(p_instance_id, p_aggregate_type, p_aggregate_id, p_event_type, p_payload, p_creator, p_owner_type, p_owner_id, p_created_at,
        coalesce(current_setting('writ.client_address', true), ''), coalesce(current_setting('writ.traceparent', true), ''));
END
$$;
-- +goose StatementEnd
