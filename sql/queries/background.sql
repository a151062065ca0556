-- name: TryLead :one
-- Of all nodes one does what is locked by this name, until its transaction ends. That
-- is idle meanwhile, so it may be.
SELECT pg_try_advisory_xact_lock(hashtextextended('lead/' || @name::text, 0))::bool AS leads,
    set_config('idle_in_transaction_session_timeout', '0', true) AS idle_timeout;
