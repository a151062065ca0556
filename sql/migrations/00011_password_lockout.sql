-- +goose Up
-- Failed passwords are counted in a period that ends by itself, as those of second
-- factors are: nobody can keep a user out for good (SEC-177).
ALTER TABLE users ADD COLUMN failed_password_until timestamptz NOT NULL DEFAULT 'epoch';

-- +goose Down
SELECT 1 / 0 AS "there is no way back from here; restore a backup";
