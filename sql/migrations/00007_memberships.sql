-- +goose Up
-- A membership gives a user roles on one object: the system (level 1), the
-- instance (2), an organization (3), a project (4) or the grant of a project (5).
-- org_id, project_id and project_grant_id say where that object is, with which it ends.
CREATE TABLE memberships (
    instance_id      text COLLATE "C" NOT NULL,
    id               text COLLATE "C" NOT NULL,
    org_id           text COLLATE "C",
    project_id       text COLLATE "C",
    project_grant_id text COLLATE "C",
    user_id          text COLLATE "C" NOT NULL,
    level            smallint NOT NULL,
    object_id        text COLLATE "C" NOT NULL,
    roles            text[] NOT NULL,
    sequence         bigint NOT NULL DEFAULT 0,
    creation_date    timestamptz NOT NULL,
    change_date      timestamptz NOT NULL,
    CONSTRAINT memberships_pkey PRIMARY KEY (instance_id, id),
    CONSTRAINT memberships_user_key UNIQUE (instance_id, user_id, level, object_id),
    CONSTRAINT memberships_level_check CHECK (level BETWEEN 1 AND 5),
    CONSTRAINT memberships_user_fkey FOREIGN KEY (instance_id, user_id) REFERENCES users ON DELETE CASCADE,
    CONSTRAINT memberships_org_fkey FOREIGN KEY (instance_id, org_id) REFERENCES organizations ON DELETE CASCADE,
    CONSTRAINT memberships_project_fkey FOREIGN KEY (instance_id, project_id) REFERENCES projects ON DELETE CASCADE,
    CONSTRAINT memberships_project_grant_fkey FOREIGN KEY (instance_id, project_grant_id) REFERENCES project_grants ON DELETE CASCADE
);
CREATE INDEX memberships_by_creation_date ON memberships (instance_id, creation_date, id);
CREATE INDEX memberships_by_object ON memberships (instance_id, level, object_id);
CREATE INDEX memberships_by_org ON memberships (instance_id, org_id);
CREATE INDEX memberships_by_project ON memberships (instance_id, project_id);
CREATE INDEX memberships_by_project_grant ON memberships (instance_id, project_grant_id);
CREATE TRIGGER memberships_counted AFTER INSERT ON memberships
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER memberships_uncounted AFTER DELETE ON memberships
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
