-- What a person looks at when something is wrong has to be found among millions of rows on
-- which nothing is: the newest deliveries, and those that were given up.

-- +goose Up
CREATE INDEX webhook_deliveries_received ON webhook_deliveries (received_at, provider, event_id);

-- Looked through whenever an order is shown; it holds only what was given up.
CREATE INDEX webhook_deliveries_given_up ON webhook_deliveries (received_at) WHERE outcome IN ('dead', 'foreign');

-- +goose Down
DROP INDEX webhook_deliveries_given_up;
DROP INDEX webhook_deliveries_received;
