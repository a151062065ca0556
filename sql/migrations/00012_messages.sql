-- +goose Up
-- Messages to be sent. A worker that takes one moves next_attempt past the time
-- it may need, so that another one takes over if it dies. What holds a code is
-- blanked as soon as it is sent or given up.
CREATE TABLE messages (
    instance_id   text COLLATE "C" NOT NULL REFERENCES instances ON DELETE CASCADE,
    id            text COLLATE "C" NOT NULL,
    org_id        text COLLATE "C" NOT NULL,
    user_id       text COLLATE "C" NOT NULL,
    kind          smallint NOT NULL CHECK (kind IN (1, 2)), -- e-mail, SMS
    template      text COLLATE "C" NOT NULL,
    recipient     text COLLATE "C" NOT NULL,
    language      text COLLATE "C" NOT NULL,
    payload       jsonb NOT NULL,
    state         smallint NOT NULL CHECK (state BETWEEN 1 AND 3), -- queued, sent, failed
    attempts      integer NOT NULL,
    next_attempt  timestamptz NOT NULL,
    creation_date timestamptz NOT NULL,
    sent_date     timestamptz,
    CONSTRAINT messages_pkey PRIMARY KEY (instance_id, id),
    FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE
);
CREATE INDEX messages_due ON messages (next_attempt) WHERE state = 1;
CREATE INDEX messages_by_user ON messages (instance_id, user_id, creation_date);
CREATE INDEX messages_by_creation_date ON messages (creation_date, id);
