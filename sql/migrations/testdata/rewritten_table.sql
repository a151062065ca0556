-- +goose Up
ALTER TABLE events ALTER COLUMN sequence TYPE numeric;
