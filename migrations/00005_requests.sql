-- What a client asked for under an Idempotency-Key, so that asking twice is asking once. The
-- row is written by the transaction that writes the order: there is never a key without its
-- order, nor an order that its key does not find.

-- +goose Up
CREATE TABLE api_requests (
    route           text        NOT NULL, -- method and path, with the order's id where the path has one
    idempotency_key text        NOT NULL, -- the client's word, without the quotes
    fingerprint     bytea       NOT NULL, -- sha256 of the request as it was understood: another one under this key is refused
    order_id        uuid        NOT NULL,
    call_key        text        NOT NULL, -- the call that opens the checkout: whoever takes over makes this one
    locked_until    timestamptz NOT NULL, -- until then its owner is at work; after it anybody may take over
    status          integer,              -- NULL: not answered yet
    answer          jsonb,                -- the answer without the order's token, which is derived each time
    created_at      timestamptz NOT NULL,
    -- One effect per key of a client.
    CONSTRAINT api_requests_pkey PRIMARY KEY (route, idempotency_key),
    -- Deferred: the key is claimed first, so that of several requests only one writes an order.
    CONSTRAINT api_requests_order FOREIGN KEY (order_id) REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT api_requests_call FOREIGN KEY (call_key) REFERENCES provider_calls (idempotency_key) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT api_requests_key_length CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    CONSTRAINT api_requests_fingerprint_whole CHECK (length(fingerprint) = 32),
    CONSTRAINT api_requests_answer_whole CHECK ((status IS NULL) = (answer IS NULL))
);

-- +goose Down
DROP TABLE api_requests;
