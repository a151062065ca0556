-- name: One :one
-- sqlc makes no models without a query.
SELECT 1;
