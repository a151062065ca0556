-- +goose Up
-- The wrong passwords that a browser gave which has signed the user in before: it has
-- tries of its own, which no stranger can use up (SEC-177).
CREATE TABLE browser_tries (
    instance_id text COLLATE "C" NOT NULL,
    user_id     text COLLATE "C" NOT NULL,
    browser     text COLLATE "C" NOT NULL,
    attempts    integer NOT NULL,
    period_end  timestamptz NOT NULL,
    CONSTRAINT browser_tries_pkey PRIMARY KEY (instance_id, user_id, browser),
    CONSTRAINT browser_tries_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX browser_tries_by_period_end ON browser_tries (period_end);

-- The browser that asked for a code, if it is such a one: what strangers ask for does not
-- void what the user asked for.
ALTER TABLE user_codes ADD COLUMN browser text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE user_codes DROP CONSTRAINT user_codes_pkey, ADD CONSTRAINT user_codes_pkey PRIMARY KEY (instance_id, user_id, purpose, browser);

-- +goose Down
SELECT 1 / 0 AS "there is no way back from here; restore a backup";
