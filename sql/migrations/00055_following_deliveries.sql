-- +goose NO TRANSACTION
-- +goose Up
-- A delivery to a later target of an execution follows the one to the earlier target that interrupts
-- the execution on errors: it is held until that is delivered, and given up when that is. Whether any
-- follows a delivery is noted at it, so that those of other executions cost nothing more.
--
-- Nodes of the release before make none that follows, and do not look at those that do: they let
-- go what is held when an older one of its object ends, and what they end of the others is
-- found by HeldDeliveries.
ALTER TABLE deliveries
    ADD COLUMN IF NOT EXISTS follows text COLLATE "C",
    ADD COLUMN IF NOT EXISTS is_held boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS is_followed boolean NOT NULL DEFAULT false;
DROP INDEX CONCURRENTLY IF EXISTS deliveries_following;
CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_following ON deliveries (instance_id, follows) WHERE follows IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS deliveries_held;
CREATE INDEX CONCURRENTLY IF NOT EXISTS deliveries_held ON deliveries (instance_id, id) WHERE is_held;
-- squawk-ignore ban-drop-constraint
ALTER TABLE deliveries DROP CONSTRAINT IF EXISTS deliveries_dead_reason_check;
ALTER TABLE deliveries ADD CONSTRAINT deliveries_dead_reason_check CHECK (dead_reason BETWEEN 0 AND 5) NOT VALID;
ALTER TABLE deliveries VALIDATE CONSTRAINT deliveries_dead_reason_check;
