-- +goose NO TRANSACTION
-- +goose Up
-- The audit trail (writ.event.v3alpha): one index for each filter, ending in the order
-- of the answers, so that none of them reads the trail to find a page of it. They are
-- made beside running nodes; what a killed run left unfinished is made anew.

DROP INDEX CONCURRENTLY IF EXISTS events_by_type;
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_by_type ON events (instance_id, event_type, sequence);
DROP INDEX CONCURRENTLY IF EXISTS events_by_creator;
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_by_creator ON events (instance_id, creator, sequence);
DROP INDEX CONCURRENTLY IF EXISTS events_by_owner;
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_by_owner ON events (instance_id, owner_id, sequence);
-- Following one instance; events_commit_order is for readers of all of them.
DROP INDEX CONCURRENTLY IF EXISTS events_of_instance_by_commit;
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_of_instance_by_commit ON events (instance_id, xid, sequence);
