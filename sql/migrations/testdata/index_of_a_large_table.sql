-- +goose Up
CREATE INDEX events_by_creator ON events (creator);
