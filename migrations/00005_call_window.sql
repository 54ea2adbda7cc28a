-- When a call was last sent. An object that a call made, and whose answer was lost together
-- with the key that would bring it again, is looked for among what the provider made
-- between the first sending and this one (I7).

-- +goose Up
ALTER TABLE provider_calls
    ADD COLUMN last_sent_at timestamptz; -- NULL: never sent, or last sent before this column was here

-- +goose Down
ALTER TABLE provider_calls DROP COLUMN last_sent_at;
