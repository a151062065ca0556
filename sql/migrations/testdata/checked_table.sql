-- +goose Up
ALTER TABLE events ADD CONSTRAINT events_creator_check CHECK (creator <> '');
