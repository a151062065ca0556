-- +goose Up
-- What an identity provider is for, for people, as other reusable resources have it.
ALTER TABLE idps ADD COLUMN IF NOT EXISTS description text COLLATE "C" NOT NULL DEFAULT '';
